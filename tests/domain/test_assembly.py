from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.assembly import NO_ENGINE, OPEN_SEGMENTS, LedgerPage, bind, judge
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import JobState
from tests.builders import CHUNK, STEADY, blank, block, failed, page, row

OTHER_CHUNK = UUID("01900000-0000-7000-8000-0000000000c2")


class Store:
    """Segments by key; remembers how often each was read."""

    def __init__(self, segments):
        self.segments = segments
        self.reads = Counter()

    def read(self, key):
        self.reads[key] += 1
        return iter(self.segments[key])

    def ledger(self):
        rows = [row(result, key) for key, results in self.segments.items() for result in results]
        return sorted(rows, key=lambda entry: entry.number)


def bound(store, ledger=None, page_count=None):
    ledger = store.ledger() if ledger is None else ledger
    return list(bind(ledger, store.read, range(1, (len(ledger) if page_count is None else page_count) + 1)))


def three_pages():
    return Store({"a": [page(1, block("one")), blank(2)], "b": [failed(3)]})


def refusal(store, ledger, page_count=3):
    with pytest.raises(PipelineError) as broken:
        bound(store, ledger, page_count)
    assert broken.value.code is ErrorCode.LEDGER_BROKEN
    return broken.value.message


@STEADY
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_pages_come_in_order_whatever_the_order_in_which_segments_were_made(segment_of, random):
    segments = {}
    for number, segment in enumerate(segment_of, start=1):
        segments.setdefault(f"s{segment}", []).append(page(number, block(str(number))))
    for results in segments.values():
        random.shuffle(results)
    assert [result.text for result in bound(Store(segments))] == [str(n + 1) for n in range(len(segment_of))]


def test_every_page_of_the_document_is_there_with_its_own_outcome():
    results = bound(three_pages())
    assert [result.outcome for result in results] == [PageOutcome.RECOGNISED, PageOutcome.BLANK, PageOutcome.FAILED]


def test_a_page_that_failed_with_its_chunk_is_made_from_its_row():
    dead = LedgerPage(
        number=3,
        outcome=PageOutcome.FAILED,
        chunk_id=OTHER_CHUNK,
        attempt=4,
        error_code=ErrorCode.PROCESS_DIED.value,
        error_detail="the engine's process died",
    )
    store = Store({"a": [page(1, block("one")), blank(2)]})
    result = bound(store, [*store.ledger(), dead])[2]
    assert (result.outcome, result.error_code) == (PageOutcome.FAILED, "process_died")
    assert (result.provenance.chunk_id, result.provenance.attempt) == (OTHER_CHUNK, 4)
    assert result.provenance.engine == NO_ENGINE


def test_a_document_of_5000_pages_never_stands_in_memory():
    held = most = 0

    def read(key):
        nonlocal held, most
        first = int(key) * 4 + 1
        held += 4
        most = max(most, held)
        return (page(number, block("text")) for number in range(first, first + 4))

    ledger = (row(page(number), str((number - 1) // 4)) for number in range(1, 5_001))
    for count, result in enumerate(bind(ledger, read, range(1, 5_001)), start=1):
        assert result.number == count
        held -= 1
    assert count == 5_000
    assert most <= 4 * OPEN_SEGMENTS


def test_each_segment_is_read_once_where_its_pages_stand_together():
    store = Store({str(part): [page(part * 4 + n) for n in range(1, 5)] for part in range(100)})
    bound(store)
    assert set(store.reads.values()) == {1}


def test_a_segment_is_read_again_rather_than_kept():
    keys = ["a", "b", "c"]
    store = Store({key: [page(number) for number in range(start + 1, 13, 3)] for start, key in enumerate(keys)})
    assert len(bound(store)) == 12
    assert store.reads["a"] == 4


def test_pages_are_given_out_before_later_segments_are_read():
    store = three_pages()
    first = next(bind(store.ledger(), store.read, range(1, 4)))
    assert first.number == 1
    assert store.reads == {"a": 1}


def test_a_gap_is_refused():
    store = three_pages()
    assert "number 2 should follow" in refusal(store, [store.ledger()[0], store.ledger()[2]])


def test_a_part_of_a_document_is_bound_by_its_own_numbers():
    store = Store({"a": [page(2), page(3)], "b": [page(15)]})
    assert [result.number for result in bind(store.ledger(), store.read, [2, 3, 15])] == [2, 3, 15]
    for numbers in ([2, 3], [2, 3, 14], [2, 3, 15, 16], [1, 2, 3, 15]):
        with pytest.raises(PipelineError):
            list(bind(store.ledger(), store.read, numbers))


def test_an_early_end_is_refused():
    store = three_pages()
    assert "ends before page 3" in refusal(store, store.ledger()[:2])


def test_an_empty_ledger_is_refused():
    assert "ends before page 1" in refusal(Store({}), [])


def test_a_page_too_many_is_refused():
    store = three_pages()
    assert "nothing should follow" in refusal(store, store.ledger(), page_count=2)


def test_a_duplicate_row_is_refused():
    store = three_pages()
    rows = store.ledger()
    assert "number 2 should follow" in refusal(store, [rows[0], rows[0], *rows[1:]])


def test_rows_out_of_order_are_refused():
    store = three_pages()
    assert "number 1 should follow" in refusal(store, store.ledger()[::-1])


def test_a_page_without_an_outcome_is_refused():
    store = three_pages()
    rows = store.ledger()
    rows[2] = LedgerPage(number=3, outcome=None, chunk_id=CHUNK)
    assert "page 3 has the outcome None" in refusal(store, rows)


def test_an_outcome_other_than_failed_without_a_segment_is_refused():
    store = three_pages()
    rows = store.ledger()
    rows[1] = replace(rows[1], segment_key=None)
    assert "page 2 has the outcome blank, but no segment" in refusal(store, rows)


def test_a_segment_without_its_page_is_refused():
    store = three_pages()
    rows = store.ledger()
    store.segments["a"].pop()
    assert "page 2 is not in its segment a" in refusal(store, rows)


def test_an_outcome_that_the_segment_contradicts_is_refused():
    store = three_pages()
    rows = store.ledger()
    store.segments["a"][1] = page(2, block("not blank"))
    assert "page 2 is blank" in refusal(store, rows)


def test_a_page_of_another_chunk_is_refused():
    store = three_pages()
    rows = store.ledger()
    rows[0] = replace(rows[0], chunk_id=OTHER_CHUNK)
    assert str(OTHER_CHUNK) in refusal(store, rows)


def test_a_page_twice_in_a_segment_is_refused():
    store = three_pages()
    rows = store.ledger()
    store.segments["a"].append(page(1, block("again")))
    assert "page 1 twice" in refusal(store, rows)


def test_of_a_page_that_was_read_again_the_result_that_the_ledger_names_is_bound():
    first, second = failed(1), page(1, block("read at last"))
    store = Store({"a": [first, page(2)], "b": [second]})
    rows = [row(second, "b"), row(store.segments["a"][1], "a")]
    assert bound(store, rows) == [second, store.segments["a"][1]]


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ({PageOutcome.RECOGNISED: 3, PageOutcome.BLANK: 1}, JobState.SUCCEEDED),
        ({PageOutcome.BLANK: 2}, JobState.SUCCEEDED),
        ({PageOutcome.TEXT_LAYER: 3, PageOutcome.FAILED: 0}, JobState.SUCCEEDED),
        ({PageOutcome.RECOGNISED: 3, PageOutcome.FAILED: 1}, JobState.PARTIAL),
        ({PageOutcome.BLANK: 1, PageOutcome.FAILED: 1}, JobState.PARTIAL),
        ({PageOutcome.FAILED: 4}, JobState.FAILED),
    ],
)
def test_a_document_is_judged_by_its_failed_pages(outcomes, state):
    assert judge(outcomes) is state


def test_a_document_without_pages_is_not_judged():
    with pytest.raises(ValueError, match="without pages"):
        judge({PageOutcome.FAILED: 0})
