import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.joining import goes_on, join_lines
from tests.builders import STEADY


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        (["one", "two"], "one two"),
        (["  one ", "", "two  "], "one two"),
        (["recog-", "nition"], "recognition"),
        (["Jean-", "Paul"], "Jean-Paul"),
        (["1914-", "1918"], "1914-1918"),
        (["size A4-", "format"], "size A4-format"),
        (["a dash -", "and more"], "a dash - and more"),
        (["soft\u00ad", "hyphen"], "softhyphen"),
        (["Gewohn\u2e17", "heit"], "Gewohnheit"),
        (["-", "item"], "- item"),
        (["中华人民", "共和国"], "中华人民共和国"),
        (["他说：“", "你好”"], "他说：“你好”"),
        (["第一条，", "second"], "第一条， second"),
        (["使用", "Python"], "使用 Python"),
        (["カタカナ", "ひらがな"], "カタカナひらがな"),
        (["대한", "민국"], "대한 민국"),
        (["the spectre—", "of Communism"], "the spectre—of Communism"),
        ([], ""),
    ],
)
def test_lines_are_joined_as_their_script_does(lines, joined):
    assert join_lines(lines) == joined


@STEADY
@given(st.lists(st.text("ab -漢。é", max_size=8), max_size=6))
def test_joining_loses_nothing_but_spaces_and_hyphens(lines):
    keep = str.maketrans("", "", " -")
    assert join_lines(lines).translate(keep) == "".join(lines).translate(keep)


@pytest.mark.parametrize(
    ("before", "after", "is_one"),
    [
        ("every vessel that comes", "in or goes out", True),
        ("the har-", "bour", True),
        ("her name, her master,", "and what she carries", True),
        ("She passed the light.", "and more", False),
        ("every vessel that comes", "In the year 1904", False),
        ("商品的价值", "是什么", False),
        ("", "and more", False),
    ],
)
def test_a_text_goes_on_where_a_sentence_breaks_off(before, after, is_one):
    assert goes_on(before, after) is is_one
