import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.recognition import BlockKind, Cell, Flag, Item, Line, Word
from pipeline.domain.serialisation import (
    decode_segment,
    encode_page,
    encode_segment,
    from_json,
    normalised,
    printable,
    to_json,
)
from tests.builders import BOX, STEADY, blank, block, failed, page, pages


def through_json(result):
    return from_json(json.loads(json.dumps(to_json(result))))


@STEADY
@given(pages())
def test_a_page_read_back_is_the_page_written_but_for_rounding(result):
    assert through_json(result) == normalised(result)


@STEADY
@given(pages())
def test_normalising_twice_changes_nothing_more(result):
    assert normalised(normalised(result)) == normalised(result)


@STEADY
@given(st.lists(pages(), max_size=6))
def test_a_segment_read_back_and_written_again_is_the_same_bytes(results):
    segment = encode_segment(results)
    assert encode_segment(decode_segment(segment)) == segment


@STEADY
@given(st.lists(pages(), min_size=1, max_size=4), st.data())
def test_a_segment_may_arrive_in_pieces_cut_anywhere(results, data):
    segment = encode_segment(results)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(segment)), max_size=8)))
    pieces = [segment[start:end] for start, end in zip([0, *cuts], [*cuts, len(segment)], strict=True)]
    assert list(decode_segment(pieces)) == [normalised(result) for result in results]


@STEADY
@given(st.lists(pages(), min_size=1, max_size=3), st.data())
def test_a_segment_cut_short_is_noticed(results, data):
    segment = encode_segment(results)
    length = data.draw(st.integers(1, len(segment) - 1))
    if segment[length - 1 : length] != b"\n":
        with pytest.raises(PipelineError, match="cut short") as broken:
            list(decode_segment(segment[:length]))
        assert broken.value.code is ErrorCode.LEDGER_BROKEN


def test_the_json_of_a_page_has_the_fields_of_the_format():
    result = page(3, block("Sehr geehrte", "Damen", kind=BlockKind.HEADING), flags=(Flag(name="skewed", score=0.25),))
    box = [[10.0, 10.0], [200.0, 10.0], [200.0, 30.0], [10.0, 30.0]]
    assert to_json(result) == {
        "number": 3,
        "source_file": None,
        "outcome": "recognised",
        "width_px": 1654,
        "height_px": 2339,
        "dpi": 200.0,
        "angle_deg": 0.0,
        "confidence": 0.9,
        "text": "Sehr geehrte\nDamen",
        "flags": [{"name": "skewed", "score": 0.25}],
        "blocks": [
            {
                "kind": "heading",
                "level": None,
                "polygon": box,
                "text": "Sehr geehrte\nDamen",
                "joined": "Sehr geehrte Damen",
                "lines": [
                    {"text": "Sehr geehrte", "polygon": box, "confidence": 0.9, "words": []},
                    {"text": "Damen", "polygon": box, "confidence": 0.9, "words": []},
                ],
                "items": [],
                "cells": [],
            }
        ],
        "engine": {"name": "rapidocr", "revision": "3.10", "settings_digest": "ab12"},
        "chunk_id": "01900000-0000-7000-8000-0000000000c1",
        "attempt": 1,
        "elapsed_ms": 1200,
        "reused": None,
        "error": None,
    }


def test_a_line_has_its_words_where_there_are_any():
    word = Word(text="a", polygon=((0.04, 0), (9, 0), (9, 9)), confidence=0.98765)
    line = Line(text="a", polygon=((0, 0), (9, 0), (9, 9)), confidence=0.9, words=(word,))
    written = to_json(page(1, replace(block("a"), lines=(line,))))["blocks"][0]["lines"][0]
    assert written["words"] == [{"text": "a", "polygon": [[0.0, 0.0], [9.0, 0.0], [9.0, 9.0]], "confidence": 0.9877}]


def test_a_failed_page_says_why():
    assert to_json(failed(2))["error"] == {"code": "page_damaged", "message": "its image can't be decoded"}


def test_coordinates_are_rounded_to_a_tenth_of_a_pixel():
    line = Line(text="a", polygon=((0.04, 1.26), (-0.04, 2), (1e-9, 3)))
    result = page(1, replace(block("a"), lines=(line,)))
    assert to_json(result)["blocks"][0]["lines"][0]["polygon"] == [[0.0, 1.3], [0.0, 2.0], [0.0, 3.0]]
    assert b"-0.0" not in encode_page(result)


def test_a_coordinate_that_is_no_number_is_not_written():
    line = Line(text="a", polygon=((float("nan"), 0), (1, 1), (2, 2)))
    with pytest.raises(ValueError, match="JSON"):
        encode_page(page(1, replace(block("a"), lines=(line,))))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1b[0mc\x7f\x9d", "ab[0mc"),
        ("a\tb\r\nc\x0cd\u2028e", "a b c d e"),
        ("half \ud83d", "half \ufffd"),
        ("both \ud83d\ude00", "both 😀"),
        ("Zürich 漢字 ſ", "Zürich 漢字 ſ"),
    ],
)
def test_text_becomes_one_printable_line(text, shown):
    assert printable(text) == shown


def test_keys_of_a_later_version_are_ignored():
    later = to_json(page(1, block("text"))) | {"words": []}
    later["engine"]["device"] = "cuda:0"
    later["blocks"][0]["cells"] = []
    assert from_json(later) == page(1, block("text"))


def test_a_page_of_version_1_0_is_read():
    older = to_json(page(1, block("text")))
    for key in ("level", "joined", "items", "cells"):
        del older["blocks"][0][key]
    assert from_json(older) == page(1, block("text"))


def test_levels_items_and_cells_survive():
    result = page(
        1,
        replace(block("One", kind=BlockKind.HEADING), level=2),
        replace(block("• a", "b", kind=BlockKind.LIST), items=(Item(lines=(0, 1), depth=1),)),
        replace(block("3", "4", kind=BlockKind.TABLE), cells=(Cell(row=1, column=2, lines=(0, 1), column_span=2),)),
    )
    assert through_json(result) == result
    assert to_json(result)["blocks"][2]["cells"] == [
        {"row": 1, "column": 2, "row_span": 1, "column_span": 2, "text": "3 4", "lines": [0, 1]}
    ]


def needed_keys():
    derived, newer = {"text", "confidence"}, {"reused", "source_file"}
    return [key for key in to_json(blank(1)) if key not in derived | newer]


@pytest.mark.parametrize("key", needed_keys())
def test_a_missing_key_is_named(key):
    stored = to_json(page(1, block("text")))
    del stored[key]
    with pytest.raises(PipelineError, match=f"lacks '{key}'"):
        from_json(stored)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("number", "1"),
        ("number", True),
        ("outcome", "lost"),
        ("blocks", {}),
        ("blocks", [{"kind": "text", "lines": []}]),
        ("blocks", [3]),
        ("blocks", [{"kind": "text", "lines": [{"text": "a", "polygon": [[1, 2, 3]] * 4, "confidence": None}]}]),
        ("flags", [{"name": "skewed", "score": 7}]),
        ("chunk_id", "no uuid"),
        ("engine", None),
        ("error", {"code": "page_damaged", "message": "but it is recognised"}),
        ("error", []),
    ],
)
def test_a_value_that_can_not_be_is_refused(key, value):
    with pytest.raises(PipelineError) as broken:
        from_json(to_json(page(1, block("text"))) | {key: value})
    assert broken.value.code is ErrorCode.LEDGER_BROKEN


@pytest.mark.parametrize("content", [b"{]\n", b"\xff\xfe\n", b"[]\n", b"\n", b"null\n"])
def test_a_segment_of_anything_but_pages_is_refused(content):
    with pytest.raises(PipelineError, match="a stored page"):
        list(decode_segment(content))


def test_a_page_is_one_line_whatever_its_text_holds():
    assert encode_page(page(1, block("a\nb\u2028c\u0085d"))).count(b"\n") == 1


def test_an_angle_and_a_page_without_confidences_survive():
    result = page(1, block("x", confidence=None), angle_deg=90.0)
    assert through_json(result) == result
    assert to_json(result)["confidence"] is None
    assert result.blocks[0].polygon == BOX
