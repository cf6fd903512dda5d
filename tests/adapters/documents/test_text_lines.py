from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.adapters.documents.text_lines import Run, blocks_of, clean, joined


def run(text: str, left: float, top: float, *, width: float = 100, height: float = 20) -> Run:
    return Run(text=text, left=left, top=top, right=left + width, bottom=top + height, size=height)


def texts(*runs: Run) -> list[str]:
    return [block.text for block in blocks_of(runs, 600, 800)]


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("divided acknowl\x02", "divided acknowl-"),
        ("divided acknowl\ufffe", "divided acknowl-"),
        ("soft\u00adhyphen", "softhyphen"),
        ("at the end\u00ad", "at the end-"),
        ("e\u0301tude", "étude"),
        ("no\u00a0break\t and   more ", "no break and more"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("\uf0b7 item", "• item"),
        ("⼈⼝", "人口"),
        ("\x07bell", "bell"),
    ],
)
def test_text_is_cleaned(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


@given(st.text())
def test_cleaning_twice_changes_nothing(raw: str) -> None:
    assert clean(clean(raw)) == clean(raw)


def test_neighbours_on_a_line_are_joined_with_the_space_between_them() -> None:
    assert [
        run.text for run in joined([run("one", 0, 0), run("two", 110, 2), run("2", 212, -4, width=5, height=12)])
    ] == ["one two2"]


def test_cells_far_apart_stay_apart() -> None:
    assert len(joined([run("left", 0, 0), run("right", 200, 0)])) == 2


def test_a_run_to_the_left_begins_a_new_line() -> None:
    assert len(joined([run("right column", 300, 0), run("left column", 0, 0)])) == 2


def test_even_lines_are_one_block_however_far_they_are_apart() -> None:
    assert texts(*(run(str(row), 0, 38 * row) for row in range(4))) == ["0\n1\n2\n3"]


def test_a_wider_gap_begins_a_block() -> None:
    assert texts(run("a", 0, 0), run("b", 0, 25), run("c", 0, 50), run("d", 0, 100)) == ["a\nb\nc", "d"]


def test_a_jump_to_the_next_column_begins_a_block() -> None:
    assert texts(run("a", 0, 400), run("b", 0, 425), run("c", 300, 0), run("d", 300, 25)) == ["a\nb", "c\nd"]


def test_a_larger_letter_begins_a_block() -> None:
    assert texts(run("Heading", 0, 0, height=30), run("body", 0, 34), run("body", 0, 58)) == ["Heading", "body\nbody"]


@given(st.lists(st.tuples(st.floats(0, 500), st.floats(0, 500), st.floats(1, 50)), max_size=30))
@example([(0.0, 1.0, 1.0), (0.0, 1.0, 1.0), (100.0, 0.0, 3.0)])
def test_every_word_is_in_one_block(places: list[tuple[float, float, float]]) -> None:
    lines = [run(f"word{index}", left, top, height=height) for index, (left, top, height) in enumerate(places)]
    kept = [word for block in blocks_of(lines, 600, 800) for line in block.lines for word in line.text.split()]
    assert sorted(kept) == sorted(line.text for line in lines)


@given(st.lists(st.tuples(st.floats(0, 500), st.floats(10, 60)), max_size=12))
def test_lines_that_run_down_the_page_keep_their_order(places: list[tuple[float, float]]) -> None:
    tops = list(accumulate(step + 20 for _, step in places))
    lines = [run(f"line {i}", left, top) for i, ((left, _), top) in enumerate(zip(places, tops, strict=True))]
    assert [line.text for block in blocks_of(lines, 600, 1200) for line in block.lines] == [run.text for run in lines]


def test_cells_of_one_run_become_a_table() -> None:
    rows = [
        replace(
            run("a b c", 0, 30 * row, width=500),
            pieces=tuple(run(text, 200 * n, 30 * row) for n, text in enumerate("abc")),
        )
        for row in range(4)
    ]
    [table] = blocks_of(rows, 600, 800)
    assert [(cell.row, cell.column) for cell in table.cells] == [
        (row, column) for row in range(4) for column in range(3)
    ]
    assert texts(*rows[:2]) == ["a b c\na b c"]


def test_bold_lines_above_text_are_a_heading() -> None:
    heading = replace(run("The dues", 0, 0), is_bold=True)
    lines = [run("for every vessel that comes into the harbour".title(), 0, 25 * n, width=500) for n in range(1, 6)]
    assert [block.level for block in blocks_of([heading, *lines], 600, 800)] == [3, None]
