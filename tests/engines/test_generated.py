"""What models write of a page, in the forms that their cards document, as blocks."""

import numpy as np
import pytest

from pipeline.domain.recognition import BlockKind
from pipeline.engines.generated.markdown import blocks_of_markdown
from pipeline.engines.generated.page import page_of
from pipeline.engines.generated.said import Said
from pipeline.engines.generated.sequence import pages_of
from pipeline.ports.documents import PageImage

PAGE = ((0.0, 0.0), (1000.0, 0.0), (1000.0, 2000.0), (0.0, 2000.0))
IMAGE = PageImage(number=3, pixels=np.full((2000, 1000, 3), 255, np.uint8), dpi=200)
WHOLE = """# The Harbour Ledger

Kept by **J. Alder**, clerk
of the harbour, with a [link](http://example.org).

## Ships

1. The *Swan*
2. The Heron
   - her tender
   - her boat

| Ship | Tons |
| --- | ---: |
| Swan | 120 |
| Heron | 80 |

![a drawing](figure.png)

\\[ E = mc^2 \\]

$$
a + b
= c
$$

> What was said at the quay
"""


def shown(blocks):
    return [(block.kind.value, block.text) for block in blocks]


def test_markdown_becomes_blocks_in_its_order():
    blocks = blocks_of_markdown(Said(text=WHOLE), PAGE)
    assert shown(blocks) == [
        ("heading", "The Harbour Ledger"),
        ("text", "Kept by J. Alder, clerk\nof the harbour, with a link."),
        ("heading", "Ships"),
        ("list", "1. The Swan\n2. The Heron\n• her tender\n• her boat"),
        ("table", "Ship\nTons\nSwan\n120\nHeron\n80"),
        ("formula", "E = mc^2"),
        ("formula", "a + b\n= c"),
        ("text", "What was said at the quay"),
    ]
    assert [block.level for block in blocks if block.kind is BlockKind.HEADING] == [1, 2]
    [listed] = [block for block in blocks if block.kind is BlockKind.LIST]
    assert [item.depth for item in listed.items] == [0, 0, 1, 1]
    [table] = [block for block in blocks if block.kind is BlockKind.TABLE]
    assert [(cell.row, cell.column, table.text_of(cell)) for cell in table.cells] == [
        (0, 0, "Ship"), (0, 1, "Tons"), (1, 0, "Swan"), (1, 1, "120"), (2, 0, "Heron"), (2, 1, "80"),
    ]  # fmt: skip
    assert {line.polygon for block in blocks for line in block.lines} == {PAGE}


def test_a_fence_around_everything_is_taken_off():
    assert shown(blocks_of_markdown(Said(text="```markdown\n# Title\n\ntext\n```"), PAGE)) == [
        ("heading", "Title"),
        ("text", "text"),
    ]


TABLE = (
    "<table><tr><th rowspan=2>Ship</th><th colspan='2'>Tons</th></tr><tr><td>gross</td><td>net</td></tr>"
    "<tr><td>Swan &amp; Co<br>of Hull</td><td>120</td><td></td></tr></table>"
)


def test_tables_in_html_keep_their_merged_cells():
    [table] = blocks_of_markdown(Said(text=f"before\n\n{TABLE}\n\nafter"), PAGE)[1:2]
    assert [(c.row, c.column, c.row_span, c.column_span, table.text_of(c)) for c in table.cells] == [
        (0, 0, 2, 1, "Ship"), (0, 1, 1, 2, "Tons"), (1, 1, 1, 1, "gross"), (1, 2, 1, 1, "net"),
        (2, 0, 1, 1, "Swan & Co of Hull"), (2, 1, 1, 1, "120"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", []),
        ("   \n\n", []),
        ("![](a.png)", []),
        ("<table><tr><td>cut off", [("table", "cut off")]),
        ("<table><tr><td rowspan=99999999 colspan=99999999>wide</td></tr></table>", [("table", "wide")]),
        ("<div align='center'><b>Title</b></div>", [("text", "Title")]),
        ("- \n- one", [("list", "•\n• one")]),
        ("\\[ open", [("text", "[ open")]),
        ("```\ncode\n  more", [("text", "code\nmore")]),
        ("第一章\n\n1. 港口", [("text", "第一章"), ("list", "1. 港口")]),
    ],
)
def test_odd_output_is_no_failure(text, blocks):
    assert shown(blocks_of_markdown(Said(text=text), PAGE)) == blocks


def test_each_block_is_as_sure_as_its_own_tokens():
    tokens = ["# ", "Title", "\n", "\n", "un", "sure"]
    said = Said(text="".join(tokens), tokens=tokens, probabilities=[1.0, 0.9, 1.0, 1.0, 0.2, 0.4])
    title, text = blocks_of_markdown(said, PAGE)
    assert title.lines[0].confidence == pytest.approx((1.0 + 0.9 + 1.0) / 3)
    assert text.lines[0].confidence == pytest.approx(0.3)
    assert blocks_of_markdown(Said(text="# Title"), PAGE)[0].lines[0].confidence is None


GROUNDED = (
    "<|ref|>header<|/ref|><|det|>[[100, 20, 900, 40]]<|/det|>\nThe Ledger\n\n"
    "<|ref|>title<|/ref|><|det|>[[0, 100, 999, 200]]<|/det|>\n# Ships\n\n"
    "<|ref|>image<|/ref|><|det|>[[0, 200, 999, 300]]<|/det|>\n\n"
    "<|ref|>text<|/ref|><|det|>[[0, 300, 499, 400], [500, 350, 999, 500]]<|/det|>\nThe Swan came in.\n\n"
    "<|ref|>text<|/ref|><|det|>nothing<|/det|>\nThe Heron went out."
)


def test_parts_with_places_lie_where_the_model_says():
    page = page_of(IMAGE, Said(text=GROUNDED), is_whole=True)
    assert page.number == 3
    assert shown(page.blocks)[:3] == [
        ("header", "The Ledger"),
        ("heading", "Ships"),
        ("text", "The Swan came in."),
    ]
    header, title, swan = page.blocks[:3]
    assert header.polygon[0] == pytest.approx((100 / 999 * 1000, 20 / 999 * 2000))
    assert (title.polygon[0], title.polygon[2]) == (
        pytest.approx((0, 200 / 999 * 1000)),
        pytest.approx((1000, 400 / 999 * 1000)),
    )
    assert swan.polygon[2] == pytest.approx((1000, 500 / 999 * 2000))
    assert "The Heron went out." in page.blocks[-1].text


@pytest.mark.parametrize(
    ("text", "is_whole", "flags", "kept"),
    [
        ("The Swan came in.", True, [], "The Swan came in."),
        ("The Swan came", False, ["truncated"], "The Swan came"),
        ("The Swan came in." + " And went out." * 60, False, ["repetition"], "The Swan came in. And went out"),
    ],
)
def test_what_broke_off_or_went_in_circles_is_flagged_and_cut(text, is_whole, flags, kept):
    page = page_of(IMAGE, Said(text=text), is_whole=is_whole)
    assert [flag.name for flag in page.flags] == flags
    assert page.blocks[0].text == kept


SHORT = (
    "<PAGE><|det|>title [48, 61, 952, 118]<|/det|>The Ledger\n"
    "<|det|>text [48, 234, 581, 301]<|/det|>The Swan came in.\n"
    "<PAGE><|det|>image [0, 0, 999, 999]<|/det|>\n"
    "<PAGE><|det|>page_number [818, 9, 907, 35]<|/det|>E13.1\n<|det|>text [48, 234, 581, 301]<|/det|>The Heron went"
)


def test_a_formula_is_one_whether_or_not_it_is_written_between_marks():
    text = (
        "<|det|>formula [48, 61, 952, 118]<|/det|>a = b\n"
        "<|det|>equation [48, 161, 952, 218]<|/det|>\\[c = d\\]\n"
        "<|ref|>equation<|/ref|><|det|>[[48, 261, 952, 318]]<|/det|>\n\\[e = f\\]"
    )
    assert shown(page_of(IMAGE, Said(text=text), is_whole=True).blocks) == [
        ("formula", "a = b"),
        ("formula", "c = d"),
        ("formula", "e = f"),
    ]


def images(*numbers):
    return [PageImage(number=number, pixels=IMAGE.pixels, dpi=200) for number in numbers]


def test_a_sequence_is_bound_page_by_page_and_only_its_last_page_is_cut_off():
    first, empty, last = pages_of(images(4, 5, 6), Said(text=SHORT), is_whole=False, tokens=300)
    assert [page.number for page in (first, empty, last)] == [4, 5, 6]
    assert shown(first.blocks) == [("heading", "The Ledger"), ("text", "The Swan came in.")]
    assert first.blocks[0].level == 1
    assert first.blocks[1].polygon[0] == pytest.approx((48 / 999 * 1000, 234 / 999 * 2000))
    assert (empty.blocks, shown(last.blocks)) == ((), [("page_number", "E13.1"), ("text", "The Heron went")])
    assert [[flag.name for flag in page.flags] for page in (first, empty, last)] == [[], [], ["truncated"]]
    assert sum(page.tokens for page in (first, empty, last)) == pytest.approx(300, abs=2)


@pytest.mark.parametrize("text", ["", "The Swan", "<PAGE>1", "<PAGE>1<PAGE>2<PAGE>3", "and<PAGE>1<PAGE>2"])
def test_a_sequence_with_another_number_of_pages_is_not_bound(text):
    assert pages_of(images(4, 5), Said(text=text), is_whole=True, tokens=9) is None


def test_each_page_of_a_sequence_is_as_sure_as_its_own_tokens():
    tokens = ["<PAGE>", "The ", "Swan", "<PAGE>The", " Heron"]
    said = Said(text="".join(tokens), tokens=tokens, probabilities=[1.0, 0.8, 0.6, 0.5, 0.3])
    swan, heron = pages_of(images(1, 2), said, is_whole=True, tokens=5)
    assert swan.blocks[0].lines[0].confidence == pytest.approx(0.7)
    assert heron.blocks[0].lines[0].confidence == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>\nTwo columns.\n</think>\n# Ships", [("heading", "Ships")]),
        ("<think>\nTwo columns, the first", []),
    ],
)
def test_what_a_model_thinks_before_it_writes_is_no_text_of_the_page(text, kept):
    assert shown(page_of(IMAGE, Said(text=text), is_whole=True).blocks) == kept
