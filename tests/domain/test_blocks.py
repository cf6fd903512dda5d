"""What the blocks of a made page are: headings, lists, tables, notes, formulas, figures, page numbers."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.joining import join_lines
from pipeline.domain.recognition import Block, BlockKind, Line
from tests.builders import STEADY
from tests.layouts import SIZE, below, blocks, kinds, of_kind, prose, typed

KEEPS = str.maketrans("", "", " -\u00ad")


def joined_texts(lines: list[Line], kind: BlockKind) -> list[str]:
    return [block.joined for block in of_kind(lines, kind)]


@st.composite
def pages(draw: st.DrawFn) -> list[Line]:
    """Parts of all kinds below one another."""
    lines = [typed("Of Vessels", 150, 100)]
    for number in range(draw(st.integers(1, 5))):
        top = below(lines)
        match draw(st.sampled_from(["prose", "heading", "items", "table", "note", "formula"])):
            case "prose":
                lines += prose(draw(st.integers(1, 6)), top, size=draw(st.sampled_from([26.0, SIZE])))
            case "heading":
                lines.append(typed(f"{number + 1} Of the Light", 150, top, size=draw(st.sampled_from([SIZE, 50.0]))))
            case "items":
                lines += [typed(f"{n}. an item", 200, top + 44 * n) for n in range(1, draw(st.integers(2, 4)))]
            case "table":
                lines += table_of(draw(st.integers(2, 5)), draw(st.integers(2, 4)), top)
            case "note":
                lines.append(typed("*) A note.", 150, top, size=24))
            case _:
                lines.append(typed("x = y + z", 500, top))
    return lines


def table_of(rows: int, columns: int, top: float, *, seed: int = 1) -> list[Line]:
    chance = Random(seed)
    return [
        typed(f"{chance.randrange(10, 9999)}", 150 + 300 * column, top + 50 * row)
        for row in range(rows)
        for column in range(columns)
    ]


class TestAnyPage:
    @STEADY
    @given(pages())
    def test_each_line_ends_in_exactly_one_block(self, lines: list[Line]) -> None:
        found = [line for block in blocks(lines) for line in block.lines]
        assert "".join(sorted("".join(line.text for line in found).translate(KEEPS))) == "".join(
            sorted("".join(line.text for line in lines).translate(KEEPS))
        )

    @STEADY
    @given(pages(), st.randoms(use_true_random=False))
    def test_the_order_of_the_input_makes_no_difference(self, lines: list[Line], random: Random) -> None:
        shuffled = random.sample(lines, len(lines))
        assert blocks(shuffled) == blocks(lines)

    @STEADY
    @given(pages())
    def test_joining_loses_no_characters_but_hyphens_and_spaces(self, lines: list[Line]) -> None:
        for block in blocks(lines):
            wanted = block.text.replace("\n", "").translate(KEEPS)
            assert block.joined.translate(KEEPS) == wanted
            parts = [block.text_of(part) for part in (*block.items, *block.cells)]
            assert not parts or "".join(parts).translate(KEEPS) == wanted


class TestHeadings:
    @pytest.mark.parametrize(
        ("text", "size", "level"),
        [
            ("Of Vessels and their Masters", 56, 1),
            ("Of Vessels and their Masters", 44, 2),
            ("3 Of Vessels", SIZE, 2),
            ("3.1 Of Vessels", SIZE, 3),
            ("3.1.4 Of Vessels", SIZE, 4),
            ("IV. Of Vessels", SIZE, 2),
            ("CHAPTER FOUR", SIZE, 3),
            ("Chapter 4", SIZE, 2),
            ("第三章 商品和货币", SIZE, 2),
            ("第二节", SIZE, 3),
        ],
    )
    def test_what_stands_out_above_text_is_one(self, text: str, size: float, level: int) -> None:
        first = prose(4, 300)
        heading = typed(text, 150, below(first), size=size)
        [block] = of_kind([*first, heading, *prose(5, below([heading]))], BlockKind.HEADING)
        assert (block.text, block.level) == (text, level)

    @pytest.mark.parametrize(
        "text",
        [
            "Of vessels and their masters",  # nothing sets it apart but the space around it
            "4 vessels came in",
            "3. The dues are paid at once.",
            "TABLE 4",
            "17 | 18",
            "Table 3: Vessels",
        ],
    )
    def test_what_does_not_stand_out_is_text(self, text: str) -> None:
        first = prose(4, 300)
        line = typed(text, 150, below(first))
        assert BlockKind.HEADING not in kinds([*first, line, *prose(5, below([line]))])

    def test_large_text_that_goes_on_below_is_none(self) -> None:
        large = typed("Enlightenment is man's", 150, 300, size=56)
        rest = [line for line in prose(6, below([large])) if line.text[:1].islower()]
        assert BlockKind.HEADING not in kinds([large, *rest])

    def test_where_too_little_stands_on_a_page_nothing_is_judged_by_size(self) -> None:
        assert BlockKind.HEADING not in kinds([typed("LEDGER", 500, 600, size=90), typed("1904", 600, 1200)])


class TestLists:
    def test_items_know_their_lines_and_depth(self) -> None:
        top = below(prose(3, 300))
        lines = [
            typed("1. The first", 200, top),
            typed("a) within the first", 260, top + 42),
            typed("b) also within", 260, top + 84),
            typed("2. The second", 200, top + 126),
        ]
        [block] = of_kind([*prose(3, 300), *lines], BlockKind.LIST)
        assert [(item.depth, block.text_of(item)) for item in block.items] == [
            (0, "1. The first"),
            (1, "a) within the first"),
            (1, "b) also within"),
            (0, "2. The second"),
        ]

    @pytest.mark.parametrize(
        "texts", [["1. Only one"], ["1. One", "3. and three"], ["- a dash"], ["一、总则", "二、附则"]]
    )
    def test_one_number_or_numbers_that_do_not_count_make_no_list(self, texts: list[str]) -> None:
        lines = [typed(text, 200, 300 + 42 * row) for row, text in enumerate(texts)]
        assert BlockKind.LIST not in kinds([*lines, *prose(4, below(lines))])

    def test_a_number_that_begins_a_line_of_a_sentence_begins_no_item(self) -> None:
        lines = prose(5, 300)
        middle = Line(text=f"[8] {lines[2].text}", polygon=lines[2].polygon, confidence=0.9)
        assert len(blocks([*lines[:2], middle, *lines[3:]])) == 1


class TestTables:
    def test_cells_stand_in_rows_and_columns(self) -> None:
        lines = [*prose(4, 200), *table_of(4, 3, 500)]
        [block] = of_kind(lines, BlockKind.TABLE)
        assert [(cell.row, cell.column) for cell in block.cells] == [(r, c) for r in range(4) for c in range(3)]
        assert [block.text_of(cell) for cell in block.cells] == [line.text for line in lines[4:]]

    def test_an_empty_cell_is_left_out(self) -> None:
        lines = table_of(5, 3, 500)
        [block] = of_kind([*lines[:7], *lines[8:]], BlockKind.TABLE)
        assert (2, 1) not in [(cell.row, cell.column) for cell in block.cells]

    def test_a_heading_over_two_columns_spans_them(self) -> None:
        head = [typed("Vessel", 150, 450), typed("Dues and fees for the harbour", 450, 450)]
        [block] = of_kind([*head, *table_of(6, 3, 500)], BlockKind.TABLE)
        assert [cell.column_span for cell in block.cells if cell.row == 0] == [1, 2]

    def test_the_further_lines_of_a_cell_belong_to_it(self) -> None:
        rows = table_of(4, 3, 500)
        lower = table_of(4, 3, 760, seed=2)
        more = typed("1904", 450, 500 + 3 * 50 + 39)
        [block] = of_kind([*rows, more, *lower], BlockKind.TABLE)
        assert "1904" in block.text_of(next(cell for cell in block.cells if (cell.row, cell.column) == (3, 1)))

    @pytest.mark.parametrize("values", [(1, 1, 1, 3, 1, 1), (1, 2, 3, 4, 1, 1, 1), (2, 4, 1, 1, 1, 1, 1)])
    def test_a_form_is_one_table_however_many_rows_a_value_has(self, values: tuple[int, ...]) -> None:
        lines, labels, row = [], [], 0
        for number, count in enumerate(values):
            labels.append(f"Field {chr(65 + number)}")
            lines.append(typed(labels[-1], 150, 400 + 50 * row))
            lines += [typed(f"value {row + n}", 450, 400 + 50 * (row + n)) for n in range(count)]
            row += count
        [block] = blocks(lines)
        assert block.kind is BlockKind.TABLE
        cells = {(cell.row, cell.column): block.text_of(cell) for cell in block.cells}
        assert [text for (_, column), text in cells.items() if column == 0] == labels
        assert [text for (_, column), text in cells.items() if column == 1] == [f"value {n}" for n in range(row)]

    def test_items_with_marks_far_from_their_text_are_none(self) -> None:
        lines = []
        for number in range(4):
            text = prose(3, 400 + 130 * number, left=300, width=1200)
            lines += [typed(f"({chr(97 + number)})", 150, text[0].polygon[0][1]), *text]
        assert BlockKind.TABLE not in kinds(lines)

    @pytest.mark.parametrize("rows", [1, 2])
    def test_too_few_rows_are_none(self, rows: int) -> None:
        assert BlockKind.TABLE not in kinds([*prose(4, 200), *table_of(rows, 3, 500)])

    def test_two_columns_of_prose_are_none(self) -> None:
        left, right = prose(4, 500, width=640), prose(4, 500, left=860, width=640)
        assert BlockKind.TABLE not in kinds([*left, *right])

    def test_numbered_lines_of_a_program_are_none(self) -> None:
        lines = [typed(f"{n}", 150, 300 + 42 * n) for n in range(1, 7)]
        code = [typed(f"store {n}", 250, 300 + 42 * n) for n in range(1, 7)]
        assert BlockKind.TABLE not in kinds([*lines, *code])


class TestNotes:
    @pytest.mark.parametrize("mark", ["1 ", "1) ", "*) ", "† ", "①", "（3）"])
    def test_small_marked_text_at_the_foot_is_one(self, mark: str) -> None:
        note = prose(2, 1900, size=25)
        first = Line(text=mark + note[0].text, polygon=note[0].polygon, confidence=0.9)
        assert len(of_kind([*prose(30, 300), first, note[1]], BlockKind.FOOTNOTE)) == 1

    def test_small_text_without_a_mark_is_none(self) -> None:
        assert BlockKind.FOOTNOTE not in kinds([*prose(30, 300), *prose(2, 1900, size=25)])

    def test_numbered_text_in_the_size_of_the_body_is_none(self) -> None:
        assert BlockKind.FOOTNOTE not in kinds([*prose(30, 300), typed("1 The dues of 1904.", 150, 1900)])

    def test_what_follows_a_note_in_its_size_belongs_to_it(self) -> None:
        note = typed("*) The dues of 1904.", 150, 1800, size=25)
        assert kinds([*prose(30, 300), note, *prose(3, 1860, size=25)])[-2:] == [BlockKind.FOOTNOTE] * 2


class TestMarginalia:
    @pytest.mark.parametrize("left", [20, 1540])
    def test_a_short_line_beside_text_is_apart_from_it_and_before_what_it_stands_beside(self, left: float) -> None:
        upper, lower = prose(6, 300), prose(6, 700)
        note = typed("14(I)", left, 705)
        found = blocks([*upper, note, *lower])
        assert [block.kind for block in found] == [BlockKind.TEXT, BlockKind.MARGINALIA, BlockKind.TEXT]
        assert found[1].text == "14(I)"

    def test_numbers_beside_nearly_every_line_are_none(self) -> None:
        lines = prose(12, 300)
        numbers = [typed(str(row), 20, line.polygon[0][1]) for row, line in enumerate(lines)]
        assert BlockKind.MARGINALIA not in kinds([*lines, *numbers])


class TestOthers:
    def test_a_formula_set_apart_is_one(self) -> None:
        formula = typed("E(x) = a·x + b", 500, 500)
        assert joined_texts([*prose(4, 300), formula, *prose(4, 600)], BlockKind.FORMULA) == ["E(x) = a·x + b"]

    @pytest.mark.parametrize("text", ["dues = 3 per cent of the load", "x = 1;", "a plain line", "价格 = 数量 + 税"])
    def test_text_with_a_sign_in_it_is_none(self, text: str) -> None:
        assert BlockKind.FORMULA not in kinds([*prose(4, 300), typed(text, 500, 500), *prose(4, 600)])

    def test_scattered_words_above_the_caption_of_a_figure_are_its_text(self) -> None:
        words = [typed(word, 300 + 250 * (n % 3), 600 + 130 * n) for n, word in enumerate(["Light", "Mole", "Quay"])]
        caption = typed("Figure 3. The harbour as it was.", 150, 1100)
        [block] = of_kind([*prose(4, 300), *words, caption], BlockKind.FIGURE)
        assert block.text.split("\n") == ["Light", "Mole", "Quay"]

    def test_a_page_number_and_what_is_beside_it_are_no_text(self) -> None:
        lines = [typed("12", 150, 100), typed("The First Book", 700, 100), *prose(20, 300)]
        assert [(block.kind, block.text) for block in blocks(lines)[:2]] == [
            (BlockKind.PAGE_NUMBER, "12"),
            (BlockKind.HEADER, "The First Book"),
        ]

    def test_a_line_alone_at_the_head_is_text_as_far_as_one_page_can_say(self) -> None:
        assert kinds([typed("The First Book", 700, 100), *prose(20, 300)])[0] is BlockKind.TEXT

    def test_lines_across_a_page_of_vertical_columns_stand_before_and_after_them(self) -> None:
        columns = [
            Line(text=text, polygon=((x, 400), (x + 50, 400), (x + 50, 1300), (x, 1300)), confidence=0.9)
            for x, text in ((1000, "天地玄黄宇宙洪荒"), (900, "日月盈昃辰宿列张"))
        ]
        page = [typed("千字文", 600, 200), *columns, typed("第一页", 600, 2200)]
        assert [line.text for block in blocks(page) for line in block.lines] == [
            "千字文",
            "天地玄黄宇宙洪荒",
            "日月盈昃辰宿列张",
            "第一页",
        ]


def test_a_block_refuses_parts_that_do_not_fit() -> None:
    from pipeline.domain.recognition import Cell, Item

    lines = (typed("a", 0, 0), typed("b", 0, 50))
    for wrong in (
        {"kind": BlockKind.TEXT, "level": 1},
        {"kind": BlockKind.HEADING, "level": 7},
        {"kind": BlockKind.TEXT, "items": (Item(lines=(0, 1)),)},
        {"kind": BlockKind.LIST, "items": (Item(lines=(0,)),)},
        {"kind": BlockKind.TABLE, "cells": (Cell(row=0, column=0, lines=(1, 0)),)},
    ):
        with pytest.raises(ValueError, match=r"heading|belongs|parts"):
            Block(lines=lines, **wrong)


def test_joined_is_what_the_lines_say() -> None:
    block = Block(kind=BlockKind.TEXT, lines=(typed("har-", 0, 0), typed("bour", 0, 50)))
    assert (block.joined, block.text) == (join_lines(["har-", "bour"]), "har-\nbour") == ("harbour", "har-\nbour")
