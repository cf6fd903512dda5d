from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.page_selection import MAX_CHARACTERS, parse_pages
from tests.builders import STEADY


@pytest.mark.parametrize(
    ("text", "written", "of_twelve"),
    [
        ("3", "3", [3]),
        ("3-5", "3-5", [3, 4, 5]),
        ("10-", "10-", [10, 11, 12]),
        ("7,1-2", "1-2,7", [1, 2, 7]),
        ("1-3,2-5,6", "1-6", [1, 2, 3, 4, 5, 6]),
        (" 3 - 4 , 9", "3-4,9", [3, 4, 9]),
        ("11-,2,12", "2,11-", [2, 11, 12]),
        ("1-", "1-", list(range(1, 13))),
    ],
)
def test_what_people_write_is_understood(text, written, of_twelve):
    pages = parse_pages(text)
    assert str(pages) == written
    assert pages.within(12) == of_twelve
    assert list(islice(pages.numbers(), len(of_twelve))) == of_twelve


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be pages such as"),
        ("a", "must be pages such as"),
        ("0", "must be pages such as"),
        ("-3", "must be pages such as"),
        ("1,,2", "must be pages such as"),
        ("1-2-3", "must be pages such as"),
        ("9999999999", "must be pages such as"),
        ("5-3", "ends before it begins"),
        ("1," * MAX_CHARACTERS, "at most"),
    ],
)
def test_what_means_nothing_is_refused(text, told):
    with pytest.raises(ValueError, match=told):
        parse_pages(text)


@pytest.mark.parametrize("text", ["13", "1-13", "13-", "2,20-30"])
def test_pages_that_a_document_has_not_are_named(text):
    with pytest.raises(ValueError, match="the document has 12"):
        parse_pages(text).within(12)


@STEADY
@given(st.sets(st.integers(1, 200), min_size=1, max_size=80), st.randoms(use_true_random=False))
def test_any_set_of_pages_can_be_said_and_comes_back(wanted, random):
    said = [str(number) for number in wanted]
    random.shuffle(said)
    pages = parse_pages(",".join(said))
    assert pages.within(200) == sorted(wanted)
    assert parse_pages(str(pages)) == pages
