from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.documents.natural_order import natural_key
from tests.builders import STEADY

AS_PEOPLE_SORT = [
    "1.jpg",
    "2.jpg",
    "10.jpg",
    "box 2/page.jpg",
    "box 2/page 2.jpg",
    "box 2/page 010.jpg",
    "box 2/PAGE 11.jpg",
    "box 2/page 12.jpg",
    "box 10/1.jpg",
    "卷2/第9页.tif",
    "卷2/第10页.tif",
    "卷10/第1页.tif",
]


def test_numbers_count_by_their_value_wherever_they_stand():
    backwards = AS_PEOPLE_SORT[::-1]
    assert sorted(backwards, key=natural_key) == AS_PEOPLE_SORT


def test_folders_may_be_written_as_other_systems_do():
    assert sorted(["b\\10.png", "b\\9.png"], key=natural_key) == ["b\\9.png", "b\\10.png"]


@STEADY
@given(st.text("ab ", max_size=3), st.integers(0, 10**30), st.integers(0, 10**30), st.text("ab.", max_size=3))
def test_names_that_differ_in_a_number_alone_are_in_its_order(before, one, other, behind):
    names = [f"{before}{number}{behind}.png" for number in sorted({one, other})]
    assert sorted(names, key=natural_key) == names


@STEADY
@given(st.lists(st.text("aA1２/\\. ", max_size=6), max_size=6, unique=True))
def test_any_names_have_one_order(names):
    backwards = names[::-1]
    assert sorted(names, key=natural_key) == sorted(backwards, key=natural_key)
