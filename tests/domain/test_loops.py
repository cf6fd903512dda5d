import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.loops import loop_at_end
from tests.builders import STEADY

PROSE = "The harbour was quiet that evening, and of the three ships only one had her lamps lit. "


@pytest.mark.parametrize(
    ("turn", "turns"),
    [("the same line again\n", 30), ("abcde", 100), ("没有别的了。", 80), ("x", 1500), (PROSE * 4, 8), ("| 1 |", 200)],
)
def test_a_loop_is_found_and_cut_to_one_turn(turn, turns):
    loop = loop_at_end(PROSE + turn * turns)
    assert loop is not None
    assert len(loop.turn) <= len(turn)
    assert loop.cut(PROSE + turn * turns).startswith(PROSE)
    assert len(loop.cut(PROSE + turn * turns)) <= len(PROSE) + 2 * len(turn)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        PROSE,
        PROSE * 3,
        "Contents " + "." * 200 + " 17",
        "Contents " + ". " * 150,
        "\n" * 2000,
        "| --- | --- |\n" * 2 + "|  |  |\n" * 12,
        "".join(f"{number}. Item of the list\n" for number in range(200)),
    ],
)
def test_what_pages_are_full_of_is_no_loop(text):
    assert loop_at_end(text) is None


@STEADY
@given(st.text(alphabet="ab c\n", max_size=300), st.text(min_size=5, max_size=60), st.integers(0, 59))
def test_any_turn_that_comes_often_enough_is_found_wherever_it_breaks_off(before, turn, rest):
    text = before + turn * 250 + turn[: rest % len(turn)]
    loop = loop_at_end(text)
    assert loop is not None or not turn.strip()
    if loop:
        assert text.startswith(loop.cut(text))
        assert len(loop.cut(text)) <= len(before) + len(turn)
