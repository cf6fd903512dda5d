from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.geometry import Box, turn
from pipeline.domain.reading_order import order
from pipeline.domain.recognition import Block, Line, Polygon
from tests.builders import STEADY

WIDTH, HEIGHT = 1654.0, 2339.0
EM = 40.0
"""Height of a line's box."""


def line(text: str, box: Box, *, confidence: float | None = 0.9) -> Line:
    return Line(text=text, polygon=box.corners, confidence=confidence)


def at(text: str, left: float, top: float, width: float, height: float = EM) -> Line:
    return line(text, Box(left=left, top=top, right=left + width, bottom=top + height))


def texts(blocks: Sequence[Block]) -> list[str]:
    return [found.text for block in blocks for found in block.lines]


def read(lines: Sequence[Line]) -> list[str]:
    return texts(order(lines, WIDTH, HEIGHT))


def column(name: str, left: float, top: float, width: float, rows: int, *, pitch: float = 42) -> list[Line]:
    """Lines of one width, the last of them short."""
    full = [at(f"{name}{row}", left, top + pitch * row, width) for row in range(rows - 1)]
    return [*full, at(f"{name}{rows - 1}", left, top + pitch * (rows - 1), width * 0.4)]


def turned(lines: Sequence[Line], angle_deg: float) -> list[Line]:
    """The page turned about its middle."""
    x, y = WIDTH / 2, HEIGHT / 2

    def moved(points: Polygon) -> Polygon:
        return tuple((px + x, py + y) for px, py in turn([(px - x, py - y) for px, py in points], angle_deg))

    return [Line(text=item.text, polygon=moved(item.polygon), confidence=item.confidence) for item in lines]


@dataclass(frozen=True)
class Layout:
    """A made page and the order that its lines are to be read in."""

    lines: tuple[Line, ...]

    @property
    def expected(self) -> list[str]:
        return [item.text for item in self.lines]


@st.composite
def layouts(draw: st.DrawFn, *, min_columns: int = 1, max_columns: int = 3) -> Layout:
    """Columns of running text, ragged on the right, under an optional title and over an optional footer."""
    count = draw(st.integers(min_columns, max_columns))
    gutter = draw(st.floats(40, 80))
    ragged = Random(draw(st.integers(0, 999)))
    width = (WIDTH - 300 - gutter * (count - 1)) / count
    top, lines = 300.0, []
    if draw(st.booleans()):
        lines.append(at("title", draw(st.floats(200, 500)), top, draw(st.floats(700, 900)), 60))
        top += draw(st.floats(80, 200))
    for index in range(count):
        left = 150 + index * (width + gutter)
        for row in range(draw(st.integers(6, 30))):
            share = ragged.uniform(0.75, 1) if row % 5 else 1.0
            lines.append(at(f"column {index} row {row}", left, top + 44 * row, width * share))
    if draw(st.booleans()):
        lines.append(at("footer", 800, draw(st.floats(2100, 2250)), 60))
    return Layout(lines=tuple(lines))


class TestAnyPage:
    @STEADY
    @given(
        st.lists(
            st.builds(
                at, st.text(min_size=1, max_size=4), *[st.floats(0, 1500)] * 2, st.floats(1, 900), st.floats(1, 120)
            ),
            max_size=40,
        )
    )
    def test_every_character_is_there_once(self, lines: list[Line]) -> None:
        wanted = sorted("".join(item.text for item in lines).replace(" ", ""))
        assert sorted("".join(read(lines)).replace(" ", "")) == wanted

    @STEADY
    @given(st.data())
    def test_the_order_of_the_input_makes_no_difference(self, data: st.DataObject) -> None:
        layout = data.draw(layouts())
        shuffled = data.draw(st.permutations(layout.lines))
        assert order(shuffled, WIDTH, HEIGHT) == order(layout.lines, WIDTH, HEIGHT)

    def test_no_lines_are_no_blocks(self) -> None:
        assert order([], WIDTH, HEIGHT) == ()

    def test_lines_in_one_place_are_all_kept(self) -> None:
        assert read([at("a", 100, 100, 500), at("a", 100, 100, 500)]) == ["a a"]


class TestColumns:
    @STEADY
    @given(layouts(max_columns=1))
    def test_one_column_is_read_from_top_to_bottom(self, layout: Layout) -> None:
        assert read(layout.lines) == layout.expected

    @STEADY
    @given(layouts(min_columns=2))
    def test_columns_are_read_one_after_the_other(self, layout: Layout) -> None:
        assert read(layout.lines) == layout.expected

    @STEADY
    @given(layouts(), st.floats(-4, 4))
    def test_a_slanted_page_is_read_as_if_it_were_straight(self, layout: Layout, angle_deg: float) -> None:
        assert read(turned(layout.lines, angle_deg)) == layout.expected

    @STEADY
    @given(layouts(), st.sampled_from([90, 180, 270]), st.floats(-3, 3))
    def test_a_page_on_its_side_is_read_as_if_it_were_upright(
        self, layout: Layout, quarter_deg: float, skew_deg: float
    ) -> None:
        assert read(turned(layout.lines, quarter_deg + skew_deg)) == layout.expected

    def test_a_title_comes_before_the_columns_below_it_and_a_footer_after(self) -> None:
        left, right = column("l", 150, 400, 640, 20), column("r", 860, 400, 640, 24)
        page = [*right, at("7", 810, 2200, 30), *left, at("title", 400, 250, 850, 60)]
        assert read(page) == ["title", *(item.text for item in left), *(item.text for item in right), "7"]

    def test_text_across_the_page_parts_the_columns_above_from_those_below(self) -> None:
        upper = [*column("a", 150, 300, 640, 8), *column("b", 860, 300, 640, 8)]
        lower = [*column("c", 150, 900, 640, 8), *column("d", 860, 900, 640, 8)]
        page = [*upper, at("across", 150, 760, 1350), *lower]
        assert read(page) == [item.text for item in page]

    def test_a_heading_on_the_left_above_text_across_the_page_belongs_to_that_text(self) -> None:
        upper = [*column("a", 150, 300, 640, 8), *column("b", 860, 300, 640, 8)]
        page = [*upper, at("heading", 150, 680, 400), at("across", 150, 760, 1350), at("on", 150, 804, 1350)]
        assert read(page) == [item.text for item in page]

    def test_a_stray_mark_in_the_gutter_parts_nothing(self) -> None:
        left, right = column("l", 150, 400, 640, 12), column("r", 860, 400, 640, 12)
        found = [text for text in read([*left, *right, at("|", 780, 600, 90)]) if "|" not in text]
        assert found == [item.text for item in [*left, *right] if item.text in found]
        assert len(found) >= len(left) + len(right) - 1

    def test_a_box_of_facts_beside_prose_is_read_by_itself(self) -> None:
        prose = column("prose", 150, 400, 800, 16, pitch=44)
        facts = [
            item
            for row, (name, value) in enumerate(
                zip([90, 210, 130, 240, 220, 100, 230, 120], [240, 90] * 4, strict=True)
            )
            for item in (at(f"name {row}", 1000, 417 + 61 * row, name), at(f"value {row}", 1300, 417 + 61 * row, value))
        ]
        assert read([*facts, *prose]) == [item.text for item in [*prose, *facts]]


class TestTables:
    def test_cells_are_read_row_by_row(self) -> None:
        cells = [
            at(f"r{row}c{place}", 150 + 350 * place, 400 + 60 * row, 90 + 30 * ((row + place) % 3))
            for row in range(8)
            for place in range(4)
        ]
        assert read(cells[::-1]) == [cell.text for cell in cells]

    def test_contents_keep_their_page_numbers(self) -> None:
        entries = [
            item
            for row in range(12)
            for item in (at(f"chapter {row}", 150, 400 + 50 * row, 500), at(f"{row + 3}", 1400, 400 + 50 * row, 40))
        ]
        assert read(entries) == [item.text for item in entries]


class TestLines:
    def test_words_on_one_baseline_become_one_line(self) -> None:
        words = [at("in", 100, 102, 50), at("the", 165, 99, 70), at("beginning", 250, 100, 300)]
        assert read(words) == ["in the beginning"]

    def test_a_joined_line_lies_around_its_words_on_the_slanted_page(self) -> None:
        words = turned([at("eins", 100, 100, 200), at("zwei", 320, 100, 200)], 3)
        whole = turned([at("both", 100, 100, 420)], 3)[0]
        [block] = order(words, WIDTH, HEIGHT)
        found = block.lines[0].polygon
        assert all(point == pytest.approx(wanted, abs=0.5) for point, wanted in zip(found, whole.polygon, strict=True))

    def test_a_joined_line_is_as_sure_as_its_characters_are_on_the_mean(self) -> None:
        long, short = Box(left=0, top=0, right=300, bottom=40), Box(left=310, top=0, right=400, bottom=40)
        [block] = order([line("nine char", long, confidence=0.9), line("x", short, confidence=0.4)], WIDTH, HEIGHT)
        assert block.lines[0].confidence == pytest.approx(0.85)

    def test_chinese_is_joined_without_a_space_and_latin_with_one(self) -> None:
        pieces = [at("第一", 100, 100, 80), at("章", 190, 100, 40), at("Redis", 240, 100, 150)]
        assert read(pieces) == ["第一章 Redis"]

    def test_words_far_apart_stay_lines_of_their_own(self) -> None:
        assert read([at("left", 100, 100, 200), at("right", 400, 100, 200)]) == ["left", "right"]


class TestVerticalText:
    def test_chinese_columns_are_read_from_right_to_left(self) -> None:
        columns = [
            at(text, 1000 - 80 * index, 200, 50, 900) for index, text in enumerate(["天地玄黄", "宇宙洪荒", "日月盈昃"])
        ]
        assert read(columns[::-1]) == ["天地玄黄", "宇宙洪荒", "日月盈昃"]

    def test_pieces_of_a_column_are_joined_and_keep_their_way_up(self) -> None:
        pieces = [at("天地", 1000, 200, 50, 100), at("玄黄", 1000, 310, 50, 100), at("宇宙洪荒", 900, 200, 50, 210)]
        [block] = order(pieces, WIDTH, HEIGHT)
        assert [found.text for found in block.lines] == ["天地玄黄", "宇宙洪荒"]
        assert block.lines[0].polygon[0] == pytest.approx((1000, 200))
        assert block.lines[0].polygon[1] == pytest.approx((1050, 200))


class TestParagraphs:
    def blocks(self, lines: Sequence[Line]) -> list[list[str]]:
        return [[item.text for item in block.lines] for block in order(lines, WIDTH, HEIGHT)]

    def test_a_wide_gap_ends_a_paragraph(self) -> None:
        first, second = column("a", 150, 300, 1300, 4), column("b", 150, 510, 1300, 4)
        assert self.blocks([*first, *second]) == [["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"]]

    def test_an_indented_line_begins_a_paragraph(self) -> None:
        lines = [at("a", 150, 300, 1300), at("b", 150, 342, 600), at("c", 190, 384, 1260), at("d", 150, 426, 1300)]
        assert self.blocks(lines) == [["a", "b"], ["c", "d"]]

    def test_each_item_of_a_list_has_its_further_lines(self) -> None:
        lines = [
            at("• one", 150, 300, 1300),
            at("more of one", 190, 342, 700),
            at("• two", 150, 384, 1300),
            at("• three", 150, 426, 1300),
        ]
        [block] = order(lines, WIDTH, HEIGHT)
        assert [block.text_of(item) for item in block.items] == ["• one more of one", "• two", "• three"]

    def test_centred_lines_stay_together(self) -> None:
        lines = [at("a", 300, 300, 1000), at("b", 500, 342, 600), at("c", 350, 384, 900)]
        assert self.blocks(lines) == [["a", "b", "c"]]

    def test_larger_letters_are_a_block_of_their_own(self) -> None:
        lines = [at("Heading", 150, 300, 500, 70), *column("a", 150, 372, 1300, 4)]
        assert self.blocks(lines) == [["Heading"], ["a0", "a1", "a2", "a3"]]
