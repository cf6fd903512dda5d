import json
import re
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from markdown_it import MarkdownIt

from pipeline import __version__
from pipeline.adapters.writers import OUTPUTS, write_json, write_markdown, write_text
from pipeline.adapters.writers.markdown_escapes import escaped
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.options import OutputFormat
from pipeline.domain.recognition import BlockKind, Cell, Item, PageOutcome
from pipeline.domain.serialisation import normalised, to_json
from pipeline.schemas import document_schema
from tests.builders import STEADY, blank, block, documents, failed, header, page
from tests.pages import ROOT

SCHEMA = Draft202012Validator(document_schema(), format_checker=FormatChecker())
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def written(write, pages, **changes):
    return b"".join(write(header(pages, **changes), iter(pages))).decode()


def five_pages():
    return [
        page(1, block("The Report", kind=BlockKind.HEADING), block("First line", "and the second.")),
        page(2, block("from the file", confidence=None), outcome=PageOutcome.TEXT_LAYER),
        blank(3),
        failed(4),
        page(5),
    ]


def test_every_format_has_its_file_name_media_type_and_writer():
    assert set(OUTPUTS) == set(OutputFormat)
    assert [output.file_name for output in OUTPUTS.values()] == ["document.json", "document.md", "document.txt"]
    assert OUTPUTS[OutputFormat.JSON].media_type == "application/json"
    for output in OUTPUTS.values():
        assert written(output.write, five_pages())


@pytest.mark.parametrize("write", [write_json, write_markdown, write_text])
class TestEveryWriter:
    def test_writes_pages_as_they_come(self, write):
        taken = []

        def pages():
            for result in five_pages():
                taken.append(result.number)
                yield result

        pieces = write(header(five_pages()), pages())
        while 2 not in taken:
            next(pieces)
        assert taken == [1, 2]

    @pytest.mark.parametrize(
        "pages",
        [[page(1)], [page(1), page(3)], [page(2), page(1)], [page(1), page(1)], [page(1), page(2), page(3)], []],
    )
    def test_refuses_pages_that_are_not_1_to_n(self, write, pages):
        with pytest.raises(PipelineError) as broken:
            list(write(header([page(1), page(2)]), iter(pages)))
        assert broken.value.code is ErrorCode.LEDGER_BROKEN

    def test_refuses_outcomes_other_than_announced(self, write):
        with pytest.raises(PipelineError, match="announced"):
            list(write(header([page(1), page(2)]), iter([page(1), blank(2)])))

    @STEADY
    @given(pages=documents())
    def test_writes_no_control_character_but_its_own_marks(self, write, pages):
        assert not re.search(r"[\x00-\x09\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff]", written(write, pages))

    @STEADY
    @given(pages=documents())
    def test_writes_the_same_bytes_from_pages_that_were_stored_in_between(self, write, pages):
        assert written(write, pages) == written(write, [normalised(result) for result in pages])


class TestJson:
    @STEADY
    @given(documents())
    def test_every_document_follows_the_schema(self, pages):
        document = json.loads(written(write_json, pages))
        SCHEMA.validate(document)
        assert document["pages"] == [to_json(result) for result in pages]
        assert sum(document["outcomes"].values()) == document["page_count"] == len(pages)

    def test_the_header_says_what_the_document_is(self):
        document = json.loads(written(write_json, five_pages()))
        del document["pages"]
        assert document == {
            "schema_version": "1.2",
            "job_id": "01900000-0000-7000-8000-000000000001",
            "source": {
                "name": "box 17.pdf",
                "sha256": "0" * 64,
                "media_type": "application/pdf",
                "size_bytes": 4096,
                "pages": None,
            },
            "page_count": 5,
            "outcomes": {"text_layer": 1, "recognised": 2, "blank": 1, "failed": 1},
            "flags": [{"name": "repaired", "score": None}],
            "page_flags": {"blurred": 2, "skewed": 1},
            "created_at": "2026-11-30T09:00:00.000+00:00",
            "finished_at": "2026-11-30T09:01:02.345+00:00",
            "generator": {"name": "muniment", "version": __version__},
        }

    def test_each_page_stands_on_a_line_of_its_own(self):
        text = written(write_json, five_pages())
        starts = [line for line in text.splitlines() if line.startswith('{"number":')]
        assert len(starts) == 5

    def test_a_file_name_that_is_no_text_is_written_all_the_same(self):
        document = json.loads(written(write_json, five_pages(), source_name="a\x07\udce9.pdf"))
        assert document["source"]["name"] == "a\ufffd.pdf"

    def test_a_time_without_a_zone_is_refused(self):
        with pytest.raises(ValueError, match="zone"):
            written(write_json, five_pages(), created_at=datetime(2026, 11, 30))  # noqa: DTZ001 - the case itself


class TestText:
    def test_pages_are_apart_by_a_form_feed_and_nothing_else(self):
        text = written(write_text, five_pages())
        assert text == "The Report\n\nFirst line\nand the second.\n\ffrom the file\n\f\f\f"

    def test_rows_of_a_table_are_lines(self):
        lines = block("Item", "Price", "Ink", "3", kind=BlockKind.TABLE)
        cells = tuple(Cell(row=n // 2, column=n % 2, lines=(n,)) for n in range(4))
        assert written(write_text, [page(1, replace(lines, cells=cells))]) == "Item | Price\nInk | 3\n"

    @STEADY
    @given(documents())
    def test_there_are_as_many_parts_as_pages(self, pages):
        assert len(written(write_text, pages).split("\f")) == len(pages)


class TestMarkdown:
    def test_pages_are_marked_and_say_why_they_are_empty(self):
        assert written(write_markdown, five_pages()) == (
            "<!-- page 1 -->\n\n## The Report\n\nFirst line and the second.\n"
            "\n<!-- page 2 -->\n\nfrom the file\n"
            "\n<!-- page 3: blank -->\n"
            "\n<!-- page 4: failed (page_damaged) -->\n"
            "\n<!-- page 5 -->\n"
        )

    def test_lines_of_a_table_stay_apart(self):
        pages = [page(1, block("Item | Price", "--- | ---", "Ink | 3", kind=BlockKind.TABLE))]
        assert written(write_markdown, pages) == ("<!-- page 1 -->\n\nItem | Price\\\n\\--- | ---\\\nInk | 3\n")

    def test_headings_have_their_level(self):
        heading = replace(block("1. The Report", kind=BlockKind.HEADING), level=4)
        assert written(write_markdown, [page(1, heading)]) == "<!-- page 1 -->\n\n#### 1. The Report\n"

    def test_a_list_keeps_its_numbers_and_depth(self):
        lines = block("• one", "two-", "fold", "a) within", "3. three", "• last", kind=BlockKind.LIST)
        items = (
            Item(lines=(0,)),
            Item(lines=(1, 2)),
            Item(lines=(3,), depth=1),
            Item(lines=(4,)),
            Item(lines=(5,), depth=1),
        )
        assert written(write_markdown, [page(1, replace(lines, items=items))]) == (
            "<!-- page 1 -->\n\n- one\n- twofold\n  - a) within\n3. three\n   - last\n"
        )

    def test_lists_behind_one_another_stay_two(self):
        first, second = (
            replace(block(f"1. {name}", kind=BlockKind.LIST), items=(Item(lines=(0,)),)) for name in ("one", "other")
        )
        assert [token.type for token in MARKDOWN.parse(written(write_markdown, [page(1, first, second)]))].count(
            "ordered_list_open"
        ) == 2

    def test_a_table_without_spans_is_a_pipe_table(self):
        lines = block("Item", "Price", "Ink | red", "3", "Quill", kind=BlockKind.TABLE)
        places = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
        cells = tuple(Cell(row=row, column=column, lines=(n,)) for n, (row, column) in enumerate(places))
        assert written(write_markdown, [page(1, replace(lines, cells=cells))]) == (
            "<!-- page 1 -->\n\n| Item | Price |\n| --- | --- |\n| Ink \\| red | 3 |\n| Quill |  |\n"
        )

    def test_a_table_with_spans_is_written_as_html(self):
        lines = block("Goods & dues", "Ink", "<3>", kind=BlockKind.TABLE)
        cells = (
            Cell(row=0, column=0, column_span=2, lines=(0,)),
            Cell(row=1, column=0, row_span=2, lines=(1,)),
            Cell(row=1, column=1, lines=(2,)),
        )
        assert written(write_markdown, [page(1, replace(lines, cells=cells))]) == (
            '<!-- page 1 -->\n\n<table>\n<tr><td colspan="2">Goods &amp; dues</td></tr>\n'
            '<tr><td rowspan="2">Ink</td><td>&lt;3&gt;</td></tr>\n</table>\n'
        )

    def test_furniture_is_left_out_and_notes_stand_at_the_end(self):
        pages = [
            page(
                1,
                block("The First Book", kind=BlockKind.HEADER),
                block("Text*)"),
                block("*) A note.", kind=BlockKind.FOOTNOTE),
                block("1904", kind=BlockKind.MARGINALIA),
                block("More."),
                block("12", kind=BlockKind.PAGE_NUMBER),
                block("Printed in Zürich", kind=BlockKind.FOOTER),
            )
        ]
        assert written(write_markdown, pages) == (
            "<!-- page 1 -->\n\nText\\*)\n\n> 1904\n\nMore.\n\n---\n\n\\*) A note.\n"
        )

    def test_a_paragraph_that_goes_on_in_the_next_column_is_one(self):
        pages = [page(1, block("Every vessel", "that comes", "into the har-"), block("bour pays.", "Always."))]
        assert written(write_markdown, pages) == (
            "<!-- page 1 -->\n\nEvery vessel that comes into the harbour pays. Always.\n"
        )

    @pytest.mark.parametrize(
        "line",
        [
            "plain text, with (brackets), 5 * 3 = 15 and snake_case_names",
            "Name ____ of ____ the house",
            "AT&T, R&D: 3 < 4 > 2, § 7 [12] [see below]",
            "a-b -- c, 1.5 or 1) no; 20.000 - 30.000",
            "C:\\Users",
        ],
    )
    def test_text_that_means_nothing_to_markdown_is_left_alone(self, line):
        assert escaped(line) == line

    @pytest.mark.parametrize(
        ("line", "written_as"),
        [
            ("1. Contract", "1\\. Contract"),
            ("2) Contract", "2\\) Contract"),
            ("- item", "\\- item"),
            ("# 7", "\\# 7"),
            ("> said", "\\> said"),
            ("-----", "\\-----"),
            ("* * *", "\\* * *"),
            ("*not bold*", "\\*not bold\\*"),
            ("_init_", "\\_init\\_"),
            ("5~10 or 15~20", "5\\~10 or 15\\~20"),
            ("`code`", "\\`code\\`"),
            ("[a](b)", "[a\\](b)"),
            ("[12]: note", "[12\\]: note"),
            ("<b>", "\\<b>"),
            ("&copy;", "\\&copy;"),
            ("\\* and \\", "\\\\\\* and \\\\"),
        ],
    )
    def test_text_that_would_mean_something_is_escaped(self, line, written_as):
        assert escaped(line) == written_as


tricky = st.text(st.sampled_from("aZ7é漢 .)(-+*_#>=~`|:[]!<&;/\\\"'\u3000"), max_size=14)
tricky_lines = tricky | st.sampled_from(
    ["---", "===", "- [ ] a", "![i](j)", "<!-- x -->", "&amp;", "&#35;", "| a | b |"]
)


def shown(markdown, kind="paragraph"):
    """Return the lines that a reader of the Markdown sees, if it is one block of this kind with plain text in it."""
    tokens = MARKDOWN.parse(markdown)
    assert [token.type for token in tokens] == [f"{kind}_open", "inline", f"{kind}_close"]
    children = tokens[1].children
    assert {child.type for child in children} <= {"text", "hardbreak"}
    return "".join(child.content if child.type == "text" else "\n" for child in children).split("\n")


class TestMarkdownAsItIsShown:
    @STEADY
    @given(tricky_lines.filter(str.strip))
    def test_a_line_is_shown_as_it_is(self, line):
        assert shown(escaped(line)) == [line.strip()]

    @STEADY
    @given(tricky_lines.filter(str.strip))
    def test_a_heading_is_shown_as_it_is(self, line):
        markdown = written(write_markdown, [page(1, block(line, kind=BlockKind.HEADING))])
        assert shown(markdown.removeprefix("<!-- page 1 -->"), "heading") == [line.strip()]

    @STEADY
    @given(st.lists(tricky_lines.filter(str.strip), min_size=1, max_size=4))
    def test_lines_that_matter_are_shown_one_below_the_other(self, texts):
        markdown = written(write_markdown, [page(1, block(*texts, kind=BlockKind.TABLE))])
        assert shown(markdown.removeprefix("<!-- page 1 -->")) == [text.strip() for text in texts]

    @STEADY
    @given(st.lists(tricky_lines.filter(str.strip), min_size=4, max_size=4))
    def test_cells_are_shown_as_they_are(self, texts):
        cells = tuple(Cell(row=n // 2, column=n % 2, lines=(n,)) for n in range(4))
        markdown = written(write_markdown, [page(1, replace(block(*texts, kind=BlockKind.TABLE), cells=cells))])
        tokens = MARKDOWN.parse(markdown.removeprefix("<!-- page 1 -->"))
        inline = [token for token in tokens if token.type == "inline"]
        assert ["".join(child.content for child in token.children) for token in inline] == [t.strip() for t in texts]

    @STEADY
    @given(st.lists(tricky_lines.filter(str.strip), min_size=1, max_size=4))
    def test_items_are_shown_as_they_are(self, texts):
        lines = block(*(f"• {text.strip()}" for text in texts), kind=BlockKind.LIST)
        items = tuple(Item(lines=(n,)) for n in range(len(texts)))
        tokens = MARKDOWN.parse(written(write_markdown, [page(1, replace(lines, items=items))]))
        inline = [token for token in tokens if token.type == "inline"]
        assert ["".join(child.content for child in token.children) for token in inline] == [t.strip() for t in texts]

    @STEADY
    @given(documents(text=tricky_lines))
    def test_a_document_holds_one_comment_a_page_and_no_other_html(self, pages):
        tokens = MARKDOWN.parse(written(write_markdown, pages))
        comments = [token.content for token in tokens if token.type == "html_block"]
        assert [int(re.search(r"\d+", comment)[0]) for comment in comments] == [result.number for result in pages]
        others = {token.type for token in tokens if token.type != "html_block"}
        lists = ("bullet_list", "ordered_list", "list_item")
        tables = ("table", "thead", "tbody", "tr", "th", "td")
        known = ("heading", "paragraph", "blockquote", *lists, *tables)
        assert others <= {f"{kind}_{end}" for kind in known for end in ("open", "close")} | {"inline", "hr"}


class TestSchema:
    def test_it_is_a_valid_schema(self):
        Draft202012Validator.check_schema(document_schema())

    @pytest.mark.parametrize(
        ("enum", "where"),
        [
            (PageOutcome, ("page", "outcome")),
            (BlockKind, ("block", "kind")),
            (ErrorCode, ("error", "code")),
        ],
    )
    def test_its_lists_are_those_of_the_code(self, enum, where):
        owner, name = where
        assert document_schema()["$defs"][owner]["properties"][name]["enum"] == [member.value for member in enum]

    def test_the_outcomes_counted_are_those_that_pages_have(self):
        counted = document_schema()["properties"]["outcomes"]
        assert list(counted["properties"]) == counted["required"] == [outcome.value for outcome in PageOutcome]

    def test_every_object_lists_all_its_keys_as_required_and_allows_no_other(self):
        def objects(schema):
            if isinstance(schema, dict):
                if schema.get("type") == "object" and "properties" in schema:
                    yield schema
                for inner in schema.values():
                    yield from objects(inner)

        found = list(objects(document_schema()))
        assert len(found) >= 8
        for schema in found:
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) == set(schema["properties"])

    @pytest.mark.parametrize(
        "change",
        [
            {"outcome": "failed"},
            {"error": {"code": "page_damaged", "message": ""}},
            {"outcome": "blank"},
            {"number": 0},
            {"words": []},
            {"confidence": 1.5},
            {"chunk_id": "7"},
        ],
    )
    def test_it_refuses_pages_that_contradict_themselves(self, change):
        document = json.loads(written(write_json, [page(1, block("text"))]))
        assert SCHEMA.is_valid(document)
        document["pages"][0] |= change
        assert not SCHEMA.is_valid(document)

    def test_the_documented_block_follows_it(self):
        example = re.search(r"```json\n(.*?)```", (ROOT / "docs" / "output.md").read_text(encoding="utf-8"), re.DOTALL)[
            1
        ]
        block_schema = {"$ref": "#/$defs/block", "$defs": document_schema()["$defs"]}
        Draft202012Validator(block_schema).validate(json.loads(example))

    def test_it_refuses_a_block_without_lines(self):
        document = json.loads(written(write_json, [page(1, block("text"))]))
        document["pages"][0]["blocks"][0]["lines"] = []
        assert not SCHEMA.is_valid(document)

    def test_a_page_that_was_never_rendered_follows_it(self):
        never = replace(failed(1, ErrorCode.PROCESS_DIED), width_px=0, height_px=0, dpi=0.0)
        assert SCHEMA.is_valid(json.loads(written(write_json, [never])))
