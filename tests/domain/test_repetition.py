import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.repetition import LONGEST_CIRCLE, TIMES, repeated_share
from tests.builders import STEADY

ENGLISH = "Permit me to introduce you to the facility of facsimile transmission, first shown in London in 1843."


@pytest.mark.parametrize(
    "text",
    [
        "",
        ENGLISH,
        "中日战争爆发后的形势与任务（一九三七年九月一日）",
        "Contents ........ 1\nPreface ........ 2\nIndex ........ 3",
        "0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00",
        "Ja\nJa\nNein\nJa\nJa\nJa\nJa\nNein",
        "Holy, holy, holy! merciful and mighty!",
    ],
)
def test_what_people_write_goes_in_no_circles(text: str) -> None:
    assert repeated_share([text]) == 0


@pytest.mark.parametrize(
    "circle",
    [
        "of the harbour ",
        "the ledger of the harbour\n",
        "transmission ",
        "中日战争的任务",
        " ".join("abcdefghij" * 2) + " ",
    ],
)
def test_a_circle_is_found_whatever_its_length(circle: str) -> None:
    assert repeated_share([circle * 10]) == 1


def test_only_the_circle_counts() -> None:
    share = repeated_share([ENGLISH, "of the harbour " * 8])
    letters = sum(map(str.isalpha, ENGLISH))
    assert share == pytest.approx(8 * 12 / (letters + 8 * 12))


def test_lines_that_repeat_each_other_are_no_circle() -> None:
    assert repeated_share([ENGLISH] * 20) == 0


@STEADY
@given(
    words=st.lists(st.text("abcdefgh", min_size=4, max_size=8), min_size=1, max_size=LONGEST_CIRCLE),
    times=st.integers(TIMES, 12),
)
def test_any_words_said_often_enough_are_a_circle(words: list[str], times: int) -> None:
    assert repeated_share([" ".join(words * times)]) == 1


@STEADY
@given(words=st.lists(st.text("abcdefgh中文", min_size=1, max_size=8), max_size=60))
def test_the_share_rises_with_the_turns(words: list[str]) -> None:
    text = " ".join(words)
    shares = [repeated_share([f"{text} {'one and the same again ' * times}"]) for times in range(0, 40, 4)]
    assert all(0 <= share <= 1 for share in shares)
    assert shares[1:] == sorted(shares[1:])
