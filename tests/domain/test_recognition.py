import pytest
from hypothesis import given

from pipeline.domain.errors import ErrorCode
from pipeline.domain.recognition import Block, BlockKind, Flag, Line, PageOutcome
from tests.builders import BOX, STEADY, blank, block, failed, page, pages


@pytest.mark.parametrize("confidence", [-0.01, 1.01, float("nan")])
def test_a_confidence_outside_0_to_1_can_not_be_made(confidence):
    with pytest.raises(ValueError, match="confidence"):
        Line(text="a", polygon=BOX, confidence=confidence)


def test_a_flag_has_a_score_from_0_to_1_or_none():
    assert Flag(name="repaired").score is None
    with pytest.raises(ValueError, match="score"):
        Flag(name="skewed", score=12.0)


def test_a_polygon_has_three_corners():
    with pytest.raises(ValueError, match="three corners"):
        Line(text="a", polygon=((0, 0), (1, 1)))


def test_a_block_without_lines_can_not_be_made():
    with pytest.raises(ValueError, match="at least one line"):
        Block(kind=BlockKind.FIGURE, lines=())


@pytest.mark.parametrize(
    ("outcome", "error_code"), [(PageOutcome.FAILED, None), (PageOutcome.BLANK, ErrorCode.PAGE_DAMAGED.value)]
)
def test_a_failed_page_says_why_and_no_other_does(outcome, error_code):
    with pytest.raises(ValueError, match="says why"):
        page(1, outcome=outcome, error_code=error_code)


@pytest.mark.parametrize(("outcome", "error_code"), [(PageOutcome.BLANK, None), (PageOutcome.FAILED, "page_damaged")])
def test_a_page_that_was_not_read_has_no_text(outcome, error_code):
    with pytest.raises(ValueError, match="has no text"):
        page(1, block("text"), outcome=outcome, error_code=error_code)


def test_the_text_of_a_page_keeps_lines_and_sets_blocks_apart():
    assert page(1, block("a", "b"), block("c")).text == "a\nb\n\nc"


def test_a_block_is_as_large_as_its_lines_together():
    upper = Line(text="a", polygon=((5, 5), (9, 4), (9, 8)))
    lower = Line(text="b", polygon=((2, 10), (7, 10), (7, 14)))
    assert Block(kind=BlockKind.TEXT, lines=(upper, lower)).polygon == ((2, 4), (9, 4), (9, 14), (2, 14))


def test_confidence_is_weighted_by_the_length_of_lines():
    assert page(1, block("aaa", confidence=1.0), block("b", confidence=0.2)).confidence == pytest.approx(0.8)


def test_lines_nobody_guessed_do_not_count_for_confidence():
    assert page(1, block("aaa", confidence=None), block("b", confidence=0.5)).confidence == 0.5


@pytest.mark.parametrize("result", [blank(1), failed(1), page(1, block("a", confidence=None)), page(1, block(""))])
def test_a_page_without_guessed_text_has_no_confidence(result):
    assert result.confidence is None


@STEADY
@given(pages())
def test_the_confidence_of_a_page_lies_in_0_to_1(result):
    assert result.confidence is None or 0 <= result.confidence <= 1
