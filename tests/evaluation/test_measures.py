"""How far what was read is from what stands there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.measures import characters, error_rate, line_score, reading_order, words

TEXT = st.text(max_size=40)
PAGE = "\n".join(f"This is line {word} of the page" for word in ("one", "two", "three", "four", "five"))


def test_what_typesetters_do_as_they_like_is_not_compared():
    assert characters("Was iſt Auf-\nklaͤrung?  „Sapere“") == characters("was ist Aufklärung? Sapere")


def test_words_are_those_of_spaced_scripts_and_single_ideographs():
    assert words("The Œuvre, no. 12: 蜀汉 era") == ["the", "œuvre", "no", "12", "蜀", "汉", "era"]


@pytest.mark.parametrize(
    ("read", "true", "rate"), [("abcd", "abcd", 0), ("abd", "abcd", 0.25), ("", "abcd", 1), ("abcdefgh", "abcd", 1)]
)
def test_the_error_rate_counts_edits_by_the_length_of_the_truth(read, true, rate):
    assert error_rate(read, true) == rate


@given(TEXT)
def test_a_text_read_as_it_is_has_no_errors(text):
    assert error_rate(characters(text), characters(text)) == 0
    assert error_rate(words(text), words(text)) == 0


def test_lines_in_their_order_score_one_however_badly_some_are_read():
    assert reading_order(PAGE.replace("three", "thrce"), PAGE) == 1.0
    assert reading_order(PAGE.replace("This is line two of the page\n", ""), PAGE) == 1.0


def test_a_line_out_of_its_place_costs_itself():
    first, *rest = PAGE.splitlines()
    assert reading_order("\n".join([*rest, first]), PAGE) == pytest.approx(4 / 5)


def test_a_page_read_upside_down_has_one_line_in_order():
    assert reading_order("\n".join(reversed(PAGE.splitlines())), PAGE) == pytest.approx(1 / 5)


def test_too_few_lines_have_no_order():
    assert reading_order("nothing of it", PAGE) is None
    assert reading_order(PAGE, "a\nb\nc") is None


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("This is line two of the page", 1.0),
        ("this is line two of the pagc", pytest.approx(21 / 22)),
        ("0123456789", pytest.approx(0, abs=0.2)),
    ],
)
def test_a_line_is_right_as_far_as_it_stands_on_the_page(line, right):
    assert line_score(line, 0.9, PAGE).right == right


def test_a_line_of_which_nothing_is_compared_has_no_score():
    assert line_score(" - ", 0.9, PAGE) is None
