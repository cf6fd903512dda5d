from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from string import ascii_lowercase

from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.recognition import Block, BlockKind, Cell, Item, Line, PageResult
from pipeline.domain.running_titles import REACH, with_running_titles
from tests.builders import STEADY, blank, documents, failed, page
from tests.layouts import below, prose, typed

FURNITURE = (BlockKind.HEADER, BlockKind.FOOTER, BlockKind.PAGE_NUMBER)


def body(number: int) -> Block:
    """Text that differs from page to page."""
    chance = Random(number)
    own = (replace(line, text="".join(chance.choices(ascii_lowercase, k=60))) for line in prose(20, 400))
    return Block(kind=BlockKind.TEXT, lines=tuple(own))


def book(count: int, head: str = "The First Book", *, foot: str = "{number}") -> list[PageResult]:
    """Pages under a title and over a number, both in one block with the text."""
    return [
        page(number, one_block(typed(head, 700, 100), body(number), typed(foot.format(number=number), 800, 2230)))
        for number in range(1, count + 1)
    ]


def one_block(first: Line, block: Block, last: Line) -> Block:
    return Block(kind=BlockKind.TEXT, lines=(first, *block.lines, last))


def found(pages: list[PageResult]) -> list[list[tuple[BlockKind, str]]]:
    return [
        [(block.kind, block.text) for block in result.blocks if block.kind in FURNITURE]
        for result in with_running_titles(pages)
    ]


def test_a_title_that_comes_back_and_a_number_that_counts_are_told_from_the_text() -> None:
    pages = book(5)
    assert found(pages) == [
        [(BlockKind.HEADER, "The First Book"), (BlockKind.PAGE_NUMBER, str(number))] for number in range(1, 6)
    ]
    assert [result.blocks[1] for result in with_running_titles(pages)] == [body(number) for number in range(1, 6)]


def test_titles_of_left_and_right_pages_alternate() -> None:
    pages = [
        left if left.number % 2 else right
        for left, right in zip(book(8, "THE HARBOUR"), book(8, "Of Vessels"), strict=True)
    ]
    titles = [texts[0][1] for texts in found(pages)]
    assert titles == ["THE HARBOUR", "Of Vessels"] * 4


def test_a_misread_letter_or_a_number_in_the_title_does_no_harm() -> None:
    pages = book(5)
    pages[2] = book(5, "The Firsl Book")[2]
    assert found(pages)[2][0] == (BlockKind.HEADER, "The Firsl Book")
    assert all(
        len(texts) == 1
        for texts in found(book(4, "Vessels", foot="")[:1] + book(4, "x", foot="4 DUES {number}")[1:])[1:]
    )


def test_numbers_that_do_not_count_the_pages_stay_text() -> None:
    pages = [replace(result, number=index) for index, result in enumerate(book(6)[::-1], start=1)]
    assert all(kind is BlockKind.HEADER for texts in found(pages) for kind, _ in texts)


def test_the_same_page_again_has_no_running_title() -> None:
    again = book(1)[0]
    assert found([replace(again, number=number) for number in range(1, 5)]) == [[], [], [], []]


def test_what_comes_back_in_another_size_or_place_is_a_heading() -> None:
    pages = book(5)
    title = typed("The First Book", 500, 150, size=60)
    pages[0] = page(1, Block(kind=BlockKind.HEADING, lines=(title,), level=1), body(1))
    assert found(pages)[0] == []


def test_two_pages_are_enough_if_there_are_no_more() -> None:
    assert [len(texts) for texts in found(book(2))] == [2, 2]
    assert found(book(1)) == [[]]


def test_of_many_pages_two_others_have_to_agree() -> None:
    pages = book(6, foot="")
    odd = [replace(result, blocks=(body(result.number),)) for result in pages[2:]]
    assert found([*pages[:2], *odd]) == [[]] * 6


def test_a_row_below_the_title_that_is_the_pages_own_stays() -> None:
    pages = [
        page(
            number,
            Block(
                kind=BlockKind.TEXT,
                lines=(
                    typed("The First Book", 700, 100),
                    typed(f"{'abcd'[number] * 9}", 150, 200),
                    *body(number).lines,
                ),
            ),
        )
        for number in range(4)
    ]
    pages = [replace(result, number=index) for index, result in enumerate(pages, start=1)]
    assert [result.blocks[1].lines[0].text for result in with_running_titles(pages)] == [
        "a" * 9,
        "b" * 9,
        "c" * 9,
        "d" * 9,
    ]


def test_a_footer_taken_for_an_item_or_a_cell_is_taken_out_of_it() -> None:
    def ended(result: PageResult, block: Block) -> PageResult:
        return replace(result, blocks=(*result.blocks[:1], block))

    pages = [page(number, body(number)) for number in range(1, 5)]
    footer = typed("THE HARBOUR LEDGER", 500, 2230)
    items = Block(
        kind=BlockKind.LIST,
        lines=(typed("• a", 150, 1700), typed("• b", 150, 1750), footer),
        items=(Item(lines=(0,)), Item(lines=(1, 2))),
    )
    cells = Block(
        kind=BlockKind.TABLE,
        lines=(typed("7", 150, 1700), footer),
        cells=(Cell(row=0, column=0, lines=(0,)), Cell(row=1, column=0, lines=(1,))),
    )
    plain = Block(kind=BlockKind.TEXT, lines=(footer,))
    done = list(
        with_running_titles([ended(pages[0], items), ended(pages[1], cells), *(ended(p, plain) for p in pages[2:])])
    )
    assert [item.lines for item in done[0].blocks[1].items] == [(0,), (1,)]
    assert [(cell.row, cell.lines) for cell in done[1].blocks[1].cells] == [(0, (0,))]
    assert [result.blocks[-1].kind for result in done] == [BlockKind.FOOTER] * 4


def test_pages_without_text_pass_through() -> None:
    pages = [*book(2), blank(3), failed(4), *[replace(result, number=result.number + 4) for result in book(2)]]
    assert [result.number for result in with_running_titles(pages)] == [1, 2, 3, 4, 5, 6]


def test_it_looks_no_further_than_it_says() -> None:
    taken = []

    def pages() -> Iterator[PageResult]:
        for result in book(4 * REACH):
            taken.append(result.number)
            yield result

    stream = with_running_titles(pages())
    for _ in range(3):
        next(stream)
    assert taken[-1] <= 3 + REACH


@STEADY
@given(documents(), st.booleans())
def test_no_page_is_lost_and_no_line(pages: list[PageResult], doubled: bool) -> None:
    pages = [*pages, *(replace(result, number=result.number + len(pages)) for result in pages)] if doubled else pages
    done = list(with_running_titles(pages))
    assert [result.number for result in done] == [result.number for result in pages]
    for before, after in zip(pages, done, strict=True):
        assert sorted(line.text for block in before.blocks for line in block.lines) == sorted(
            line.text for block in after.blocks for line in block.lines
        )


def test_made_pages_do_not_overlap() -> None:
    assert below(body(1).lines) < 2230
    assert all(one.polygon[0][1] < other.polygon[0][1] for one, other in pairwise(body(1).lines))
