"""Small builders of domain values, and Hypothesis strategies over them."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st

from pipeline.domain.assembly import DocumentHeader, LedgerPage
from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.errors import ErrorCode
from pipeline.domain.recognition import (
    Block,
    BlockKind,
    Cell,
    EngineIdentity,
    Flag,
    Item,
    Line,
    PageOutcome,
    PageResult,
    PageSource,
    Provenance,
    Word,
)

STEADY = settings(deadline=None, derandomize=True)
"""The same examples every time, on machines of any speed."""

JOB = UUID("01900000-0000-7000-8000-000000000001")
CHUNK = UUID("01900000-0000-7000-8000-0000000000c1")
BOX = ((10.0, 10.0), (200.0, 10.0), (200.0, 30.0), (10.0, 30.0))
ENGINE = EngineIdentity(name="rapidocr", revision="3.10", settings_digest="ab12")


def facts(count, page_class=PageClass.SCAN, *, first=1, dpi=200.0, width_pt=595.0, height_pt=842.0):
    return [
        PageFacts(number=number, page_class=page_class, width_pt=width_pt, height_pt=height_pt, dpi=dpi)
        for number in range(first, first + count)
    ]


def block(*lines, kind=BlockKind.TEXT, confidence=0.9):
    return Block(kind=kind, lines=tuple(Line(text=text, polygon=BOX, confidence=confidence) for text in lines))


def provenance(chunk_id=CHUNK, attempt=1):
    return Provenance(engine=ENGINE, chunk_id=chunk_id, attempt=attempt, elapsed_ms=1200)


def page(number, *blocks, outcome=None, chunk_id=CHUNK, error_code=None, **more):
    if outcome is None:
        outcome = PageOutcome.RECOGNISED if error_code is None else PageOutcome.FAILED
    return PageResult(
        number=number,
        outcome=outcome,
        width_px=1654,
        height_px=2339,
        dpi=200.0,
        provenance=provenance(chunk_id),
        blocks=blocks,
        error_code=error_code,
        **more,
    )


def blank(number):
    return page(number, outcome=PageOutcome.BLANK)


def failed(number, code=ErrorCode.PAGE_DAMAGED):
    return page(number, error_code=code.value, error_detail="its image can't be decoded")


def row(result, segment_key):
    """Return the ledger's row for a page that lies in a segment."""
    return LedgerPage(
        number=result.number,
        outcome=result.outcome,
        chunk_id=result.provenance.chunk_id,
        segment_key=segment_key,
        error_code=result.error_code,
    )


def header(pages, **changes):
    outcomes = {outcome: sum(p.outcome is outcome for p in pages) for outcome in {p.outcome for p in pages}}
    values = {
        "job_id": JOB,
        "source_name": "box 17.pdf",
        "sha256": "0" * 64,
        "media_type": "application/pdf",
        "size_bytes": 4096,
        "page_count": len(pages),
        "selected": None,
        "outcomes": outcomes,
        "flags": (Flag(name="repaired"),),
        "page_flags": {"blurred": 2, "skewed": 1},
        "created_at": datetime(2026, 11, 30, 9, 0, tzinfo=UTC),
        "finished_at": datetime(2026, 11, 30, 9, 1, 2, 345678, tzinfo=UTC),
    }
    return DocumentHeader(**values | changes)


_scores = st.none() | st.floats(0, 1)
_numbers = st.integers(1, 9_999)
_coordinates = st.floats(-10_000, 10_000)
_any_text = st.text(st.characters(codec=None), max_size=30)  # with control characters and halves of surrogate pairs


def lines(text=_any_text):
    corners = st.tuples(_coordinates, _coordinates)
    polygons = st.lists(corners, min_size=3, max_size=5).map(tuple)
    words = st.lists(st.builds(Word, text=text, polygon=polygons, confidence=_scores), max_size=2).map(tuple)
    return st.builds(Line, text=text, polygon=polygons, confidence=_scores, words=words)


@st.composite
def blocks(draw, text=_any_text):
    """Draw a block of any kind; of lists and tables some have no parts, as those of version 1.0."""
    kind = draw(st.sampled_from(BlockKind))
    found = draw(st.lists(lines(text), min_size=1, max_size=4).map(tuple))
    has_parts = draw(st.booleans())
    return Block(
        kind=kind,
        lines=found,
        level=draw(st.none() | st.integers(1, 6)) if kind is BlockKind.HEADING else None,
        items=tuple(Item(lines=(n,)) for n in range(len(found))) if kind is BlockKind.LIST and has_parts else (),
        cells=(Cell(row=0, column=0, lines=tuple(range(len(found)))),) if kind is BlockKind.TABLE and has_parts else (),
    )


@st.composite
def pages(draw, number=_numbers, text=_any_text):
    outcome = draw(st.sampled_from(PageOutcome))
    is_failed = outcome is PageOutcome.FAILED
    has_text = outcome in (PageOutcome.RECOGNISED, PageOutcome.TEXT_LAYER)
    return PageResult(
        number=draw(number),
        outcome=outcome,
        width_px=draw(st.integers(0, 40_000)),
        height_px=draw(st.integers(0, 40_000)),
        dpi=draw(st.floats(0, 1200)),
        angle_deg=draw(st.floats(-360, 360)),
        blocks=tuple(draw(st.lists(blocks(text), max_size=4))) if has_text else (),
        flags=tuple(draw(st.lists(st.builds(Flag, name=st.text("abc_", min_size=1), score=_scores), max_size=3))),
        provenance=Provenance(
            engine=ENGINE,
            chunk_id=draw(st.uuids()),
            attempt=draw(st.integers(0, 20)),
            elapsed_ms=draw(st.integers(0, 10**7)),
            source=draw(st.none() | st.builds(PageSource, job_id=st.uuids(), number=_numbers)),
        ),
        error_code=draw(st.sampled_from(ErrorCode)).value if is_failed else None,
        error_detail=draw(st.none() | _any_text) if is_failed else None,
    )


@st.composite
def documents(draw, text=_any_text):
    """Draw the pages of a whole document, 1 to N."""
    count = draw(st.integers(1, 5))
    return [draw(pages(number=st.just(number), text=text)) for number in range(1, count + 1)]
