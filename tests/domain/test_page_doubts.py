"""What speaks against a page: each flag begins where it should, and its score rises with what it is about."""

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import page_doubts as doubts
from pipeline.domain.geometry import turn
from pipeline.domain.languages import parse_language
from pipeline.domain.page_doubts import PageLook, skew, text_doubts
from pipeline.domain.recognition import Line
from tests.builders import STEADY

SHARP = PageLook(edge_px=1.5, shown_through=0.0)
TEXT = "Permit me to introduce you by letter and wire, the facility of facsimile transmission first shown in London"


def page(*, count=20, height=36.0, confidence=0.99, text=None, angle_deg=0.0):
    """Return lines of a page of that type, turned about its corner; of one text, or each with words of its own."""
    lines = []
    for row in range(count):
        words = " ".join(Random(row).sample(TEXT.split(), 7)) if text is None else text
        top, right = 200 + 1.5 * height * row, 100 + 0.5 * height * len(words)
        box = ((100.0, top), (right, top), (right, top + height), (100.0, top + height))
        lines.append(Line(text=words, polygon=turn(box, angle_deg), confidence=confidence))
    return lines


def page_doubts(lines, look, *, sure=0.97, **more):
    return doubts.page_doubts(lines, look, sure=sure, **more)


def score(name, lines, look=SHARP, **more):
    """Return a flag's score; 0, if it is not raised."""
    return next((flag.score for flag in page_doubts(lines, look, **more) if flag.name == name), 0.0)


def test_nothing_speaks_against_a_good_page():
    assert page_doubts(page(), SHARP) == ()


def test_nothing_is_said_of_a_page_with_a_few_characters():
    lines = page(count=1, text="page 12", height=8, confidence=0.5, angle_deg=9)
    assert page_doubts(lines, PageLook(edge_px=9, shown_through=1)) == ()


def test_a_page_without_confidences_is_not_one_of_low_confidence():
    assert page_doubts(page(confidence=None), SHARP) == ()


@pytest.mark.parametrize("sure", [19, 10, 0])
def test_confidence_is_judged_by_the_share_of_text_in_doubt(sure):
    lines = page(count=sure) + page(count=20 - sure, confidence=0.9)
    share = 1 - sure / 20
    expected = 0.0 if share < doubts.UNSURE_SHARE else 1 - doubts.UNSURE_SHARE / (2 * share)
    assert score("low_confidence", lines) == pytest.approx(expected)


def test_how_sure_an_engine_is_of_good_pages_is_its_own():
    lines = page(confidence=0.93)
    assert (score("low_confidence", lines, sure=0.97) > 0.5, score("low_confidence", lines, sure=0.9)) == (True, 0)


def test_small_type_is_flagged_and_what_was_enlarged_counts_as_it_was_scanned():
    scores = [score("low_resolution", page(height=height)) for height in (36, 24, 16, 12, 8, 4)]
    assert scores == sorted(scores)
    assert (scores[0], scores[1]) == (0, 0)
    assert scores[-1] > 0.7
    assert score("low_resolution", page(height=24), enlarged=2.0) == score("low_resolution", page(height=12))


def test_blur_is_judged_by_the_size_of_the_type():
    scores = [score("blurred", page(), PageLook(edge_px=edge, shown_through=0)) for edge in (1, 3, 6, 9, 15)]
    assert scores == sorted(scores)
    assert (scores[0], scores[1]) == (0, 0)
    assert scores[-1] > 0.6
    assert score("blurred", page(height=120), PageLook(edge_px=9, shown_through=0)) == 0


@STEADY
@given(quarter=st.integers(0, 3), angle=st.floats(-12, 12))
def test_skew_is_measured_whichever_way_the_page_lies(quarter, angle):
    lines = page(angle_deg=90 * quarter + angle)
    assert skew(lines) == pytest.approx(angle, abs=0.01)
    flagged = score("skewed", lines)
    assert (flagged > 0) == (abs(skew(lines)) >= doubts.SKEW_DEG)
    assert flagged < score("skewed", page(angle_deg=90 * quarter + math.copysign(abs(angle) + 2, angle)))


def test_thin_strokes_of_an_unsure_page_are_a_pen_s():
    unsure = page(confidence=0.7)
    scores = [score("handwriting_suspected", unsure, PageLook(stroke_em=em)) for em in (0.1, 0.08, 0.06, 0.05, 0.03)]
    assert scores == sorted(scores)
    assert (scores[1], scores[2] > 0.5) == (0, True)
    assert score("handwriting_suspected", page(), PageLook(stroke_em=0.05)) == 0
    assert score("handwriting_suspected", unsure, PageLook(stroke_em=None)) == 0


def test_what_shines_through_is_flagged():
    scores = [score("bleed_through", page(), PageLook(shown_through=share)) for share in (0, 0.1, 0.4, 0.8)]
    assert scores == sorted(scores)
    assert (scores[1], scores[2] > 0.5) == (0, True)


def test_words_that_no_language_has_are_flagged():
    assert score("language_unexpected", page(text="ldtmdme Coreputer ~~~tnmirizes re~ult~ ##x rhievesf.ult")) > 0.5


def test_lines_with_far_fewer_letters_than_room_are_flagged():
    full = page()
    half, few = (
        [replace(line, text=" ".join(word[::step] for word in line.text.split())) for line in full] for step in (3, 9)
    )
    scores = [score("language_unexpected", lines) for lines in (full, half, few)]
    assert scores == sorted(scores)
    assert (scores[0], scores[1] >= 0.5) == (0, True)


def test_letters_that_the_job_s_languages_do_not_have_are_flagged():
    russian, german = (parse_language(name) for name in ("ru", "de"))
    assert score("language_unexpected", page(), languages=[russian]) > 0.8
    assert page_doubts(page(), SHARP, languages=[german, russian]) == ()


def test_text_alone_is_judged_by_its_words_only():
    texts = [line.text for line in page()]
    russian = parse_language("ru")
    assert text_doubts(texts) == text_doubts(["page 12"], [russian]) == ()
    assert [flag.name for flag in text_doubts(texts, [russian])] == ["language_unexpected"]
    assert [flag.name for flag in text_doubts(["and the " * 20])] == ["repetition"]


def test_text_that_goes_in_circles_is_flagged():
    assert score("repetition", page(text="and the and the and the and the and the and the")) > 0.5


def test_nothing_is_said_of_a_picture_without_edges():
    assert page_doubts(page(), PageLook()) == ()


@STEADY
@given(
    height=st.floats(1, 200),
    confidence=st.none() | st.floats(0, 1),
    edge=st.none() | st.floats(0, 500),
    shown=st.none() | st.floats(0, 1),
    stroke=st.none() | st.floats(0, 2),
    enlarged=st.floats(1, 4),
    angle=st.floats(-180, 180),
    text=st.text(min_size=1, max_size=60),
)
def test_every_score_is_half_or_more(*, height, confidence, edge, shown, stroke, enlarged, angle, text):
    lines = page(height=height, confidence=confidence, angle_deg=angle, text=text)
    look = PageLook(edge_px=edge, shown_through=shown, stroke_em=stroke)
    found = page_doubts(lines, look, enlarged=enlarged)
    assert all(0.5 <= flag.score <= 1 for flag in found)
    assert len({flag.name for flag in found}) == len(found)
