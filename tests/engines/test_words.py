"""Where words stand within their lines: judged on pages that they were drawn on."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.writing import word_spans
from pipeline.engines.ppocr.words import part_of, pieces_of
from pipeline.engines.rapidocr import RapidOcrEngine
from tests.builders import STEADY
from tests.pages import image, paper, rendered, shared, with_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" ", []),
        ("one", ["one"]),
        (" two  words ", ["two", "words"]),
        ("中日战争", ["中", "日", "战", "争"]),
        ("在2026年 use Python语言", ["在", "2026", "年", "use", "Python", "语", "言"]),
    ],
)
def test_words_stand_between_spaces_and_ideographs_alone(text, words):
    assert [text[first:last] for first, last in word_spans(text)] == words


@STEADY
@given(st.text(st.sampled_from("ab 中"), min_size=1, max_size=30), st.data())
def test_words_follow_one_another_within_their_line(text, data):
    steps = sorted(data.draw(st.sets(st.integers(0, 999), min_size=len(text), max_size=len(text))))
    pieces = pieces_of(list(text), [(step + 0.5) / 1000 for step in steps], [0.9] * len(text))
    assert [piece.text for piece in pieces] == [text[first:last] for first, last in word_spans(text)]
    edges = [edge for piece in pieces for edge in (piece.start, piece.end)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= 1 for edge in edges)
    assert all(piece.start < piece.end for piece in pieces)


@pytest.mark.parametrize("runs_down", [False, True])
def test_the_parts_of_a_line_lie_along_it(runs_down):
    quad = np.array([[10, 20], [110, 30], [108, 50], [8, 40]], np.float32)
    first, second = part_of(quad, 0, 0.5, runs_down=runs_down), part_of(quad, 0.5, 1, runs_down=runs_down)
    shared_edge = ([1, 2], [0, 3]) if not runs_down else ([3, 2], [0, 1])
    assert np.allclose(first[shared_edge[0]], second[shared_edge[1]])
    assert np.allclose(first[0], quad[0])
    assert np.allclose(second[2], quad[2])


@pytest.fixture(scope="module")
def engine() -> RapidOcrEngine:
    engine = RapidOcrEngine()
    engine.warm_up()
    return engine


def drawn(words, *, x=150, y=500):
    """Return a page with a line of words, and from where to where each was drawn."""
    pixels, places = paper(1000, 1654), {}
    for word in words:
        with_text(pixels, word, x, y, scale=1.5)
        (width, _), _ = cv2.getTextSize(word, cv2.FONT_HERSHEY_SIMPLEX, 1.5, 2)
        places[word] = (x, x + width)
        x += width + 40
    return pixels, places


def test_words_lie_where_they_were_drawn(engine):
    pixels, places = drawn(["Permit", "me", "to", "introduce", "the", "facility"])
    [found] = engine.read([image(pixels)])
    words = [word for line in found.lines for word in line.words]
    assert [word.text for word in words] == list(places)
    for word in words:
        left, right = places[word.text]
        (x0, y0), (x1, _), (_, y2), _ = word.polygon
        assert (x0, x1) == pytest.approx((left, right), abs=16)
        assert y0 < 490 < y2
        assert word.confidence > 0.8


def test_a_sideways_page_has_its_words_where_they_are(engine):
    pixels, places = drawn(["harbour", "ledger", "of", "the", "town"])
    for row in range(3):
        with_text(pixels, "a page has more lines than one", 150, 620 + 90 * row, scale=1.2)
    sideways = np.ascontiguousarray(np.rot90(pixels))  # counter-clockwise: x runs up the page
    [found] = engine.read([image(sideways)])
    words = {word.text: word for line in found.lines for word in line.words}
    for text, (left, right) in places.items():
        ys = [y for _, y in words[text].polygon]
        assert (1654 - max(ys), 1654 - min(ys)) == pytest.approx((left, right), abs=18)


def test_columns_of_chinese_have_a_word_for_each_character(engine):
    page = rendered(shared("corpus/a_zh_vertical_woodblock.png"))
    [found] = engine.read([page])
    line = max(found.lines, key=lambda line: len(line.text))
    assert "".join(word.text for word in line.words) == line.text
    tops = [min(y for _, y in word.polygon) for word in line.words]
    assert tops == sorted(tops)
