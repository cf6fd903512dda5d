import pytest

from pipeline.domain.page_numbers import page_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("- 12 -", 12),
        ("— 7 —", 7),
        ("Page 3", 3),
        ("page 3 of 14", 3),
        ("3/14", 3),
        ("xii", 12),
        ("XIV", 14),
        ("第 3 页", 3),
        ("第3页 共14页", 3),
        ("１７", 17),
        ("[21]", 21),
    ],
)
def test_a_page_number_is_read(text: str, number: int) -> None:
    assert page_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "12345", "12 Vessels", "civil", "mild", "iix", "No. 3", "3.14", "Chapter 3", "三"]
)
def test_what_is_more_or_other_than_a_number_is_none(text: str) -> None:
    assert page_number(text) is None
