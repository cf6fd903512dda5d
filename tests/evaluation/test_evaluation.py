"""What results are worth, and when they are worse."""

import pytest

from pipeline.evaluation.evaluation import evaluate, regressions
from pipeline.evaluation.tables import markdown
from pipeline.evaluation.truth import Known


def known(file, *texts, kind="scan", **expect):
    return Known.model_validate(
        {"file": file, "class": kind, "expect": expect, "truths": dict(enumerate(texts, start=1))}
    )


def page(number, text="", *, outcome="recognised", confidence=0.99, flags=()):
    lines = [{"text": line, "confidence": confidence} for line in text.splitlines()]
    return {
        "number": number,
        "text": text,
        "outcome": outcome,
        "flags": [{"name": name, "score": None} for name in flags],
        "blocks": [{"lines": lines}] if lines else [],
        "engine": {"name": "rapidocr", "revision": "7"},
    }


def result(*pages, state="succeeded"):
    return {"state": state, "page_count": len(pages), "pages": list(pages)}


def test_pages_are_scored_against_their_own_texts():
    found = evaluate(
        [known("a.pdf", "hello world", "second page")],
        {"a.pdf": result(page(1, "hello world"), page(2, "secomd page"))},
        seconds=4,
    )
    assert [(score.page, score.cer, score.wer) for score in found.pages] == [(1, 0, 0), (2, 0.1, 0.5)]
    assert (found.engines, found.outcomes) == (["rapidocr 7"], {"recognised": 2})
    assert found.unexpected == []


def test_a_page_that_is_missing_is_all_wrong():
    found = evaluate([known("a.pdf", "hello", pages=1, outcome="ok")], {"a.pdf": result()}, seconds=1)
    assert found.pages[0].cer == 1
    assert found.unexpected == ["a.pdf: has 0 pages, should have 1"]


def test_documents_that_end_otherwise_than_they_should_are_named():
    corpus = [known("bad.pdf", outcome="rejected", also_acceptable=["partial"]), known("gone.pdf", outcome="ok")]
    found = evaluate(corpus, {"bad.pdf": result(state="succeeded")}, seconds=1)
    assert found.unexpected == [
        "bad.pdf: ended as succeeded, should be partial or rejected",
        "gone.pdf: ended as missing, should be succeeded",
    ]


def test_blank_pages_count_where_they_are_known():
    pages = result(page(1, "text"), page(2, outcome="blank"), page(3, outcome="blank"), page(4, outcome="blank"))
    corpus = [known("a.pdf", blank_pages=[2, 3, 5]), known("b.pdf")]
    found = evaluate(corpus, {"a.pdf": pages, "b.pdf": result(page(1, outcome="blank"))}, seconds=1)
    assert (found.blanks.precision, found.blanks.recall) == (pytest.approx(2 / 3), pytest.approx(2 / 3))


def test_confidence_is_set_against_what_is_right():
    pages = [page(1, "the first line\nthe last lime", confidence=0.97)]
    found = evaluate([known("a.pdf", "the first line\nthe last line")], {"a.pdf": result(*pages)}, seconds=1)
    _, sure, *rest = found.calibration
    assert (sure.at_least, sure.lines, sure.right) == (0.95, 2, 1)
    assert sure.characters_right == pytest.approx((1 + 10 / 11) / 2, abs=1e-4)
    assert [group.lines for group in rest] == [0, 0, 0]


def test_of_the_lines_above_each_confidence_the_table_says_how_many_are_right():
    results = {
        f"box-{number}.pdf": result(page(1, text, confidence=confidence))
        for number, (text, confidence) in enumerate(
            [("the first line\nthe last line", 0.99), ("the first lime", 0.96), ("the last line", 0.91), ("last", 0.2)]
        )
    }
    corpus = [known(file, "the first line\nthe last line") for file in results]
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in markdown(evaluate(corpus, results, seconds=1)).splitlines()
        if row.startswith("| 0")
    ]
    assert [(row[0], row[1], row[2], row[4], row[5]) for row in rows] == [
        ("0.98", "2", "100.0%", "2", "100.0%"),
        ("0.95 to 0.98", "1", "0.0%", "3", "66.7%"),
        ("0.9 to 0.95", "1", "100.0%", "4", "75.0%"),
        ("0.8 to 0.9", "0", "-", "4", "75.0%"),
        ("0 to 0.8", "1", "100.0%", "5", "80.0%"),
    ]


def test_pages_are_set_apart_by_their_flags():
    results = {
        "a.pdf": result(page(1, "hell", flags=["blurred", "skewed"]), page(2, "world")),
        "b.pdf": result(page(1, "wor", flags=["blurred"])),
    }
    found = evaluate([known("a.pdf", "hello", "world"), known("b.pdf", "world")], results, seconds=1)
    assert {name: [(page.file, page.page) for page in pages] for name, pages in found.by_flag.items()} == {
        "blurred": [("a.pdf", 1), ("b.pdf", 1)],
        "skewed": [("a.pdf", 1)],
        "any": [("a.pdf", 1), ("b.pdf", 1)],
        "none": [("a.pdf", 2)],
    }
    assert "| blurred | 2 | 30.00% | 40.00% |" in markdown(found)


def test_a_rise_beyond_the_tolerance_is_a_regression_and_one_within_it_is_none():
    corpus = [known("a.pdf", "0123456789 0123456789")]
    before = evaluate(corpus, {"a.pdf": result(page(1, "0123456789 0123456789"))}, seconds=1)
    now = evaluate(corpus, {"a.pdf": result(page(1, "0123456789 012345678"))}, seconds=1)
    assert regressions(now, before, tolerance=0.01) == [
        "scan: CER 0.0000 -> 0.0500",
        "scan: WER 0.0000 -> 0.5000",
        "all: CER 0.0000 -> 0.0500",
        "all: WER 0.0000 -> 0.5000",
    ]
    assert regressions(now, before, tolerance=0.5) == []
    assert regressions(before, now, tolerance=0.0) == []


def test_pages_that_only_one_run_had_are_no_regression():
    before = evaluate([known("a.pdf", "hello")], {"a.pdf": result(page(1, "hello"))}, seconds=1)
    now = evaluate([known("b.pdf", "hello")], {"b.pdf": result(page(1, "no"))}, seconds=1)
    assert regressions(now, before, tolerance=0.0) == []


def test_a_document_that_ended_well_before_is_a_regression_when_it_no_longer_does():
    corpus = [known("a.pdf", outcome="ok")]
    before, now = (evaluate(corpus, {"a.pdf": result(state=state)}, seconds=1) for state in ("succeeded", "failed"))
    assert regressions(now, before, tolerance=0.0) == ["new: a.pdf: ended as failed, should be succeeded"]


def test_the_tables_hold_every_page_and_class():
    corpus = [known("a.pdf", "hello", kind="scan"), known("b.pdf", "world", kind="fax")]
    results = {"a.pdf": result(page(1, "hello", flags=["skewed"])), "b.pdf": result(page(1, "word"))}
    tables = markdown(evaluate(corpus, results, seconds=2))
    for row in ("| scan | 1 | 0.00%", "| fax | 1 | 20.00%", "| all | 2 | 10.00%", "| a.pdf, 1 | 5 |", "| skewed 1 |"):
        assert row in tables
