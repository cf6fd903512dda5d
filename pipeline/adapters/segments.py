"""Single pages out of segments."""

from pipeline.domain.errors import PipelineError
from pipeline.domain.recognition import PageResult
from pipeline.domain.serialisation import decode_segment
from pipeline.ports.chunks import KnownPage
from pipeline.ports.objects import ObjectStore


def fetch_page(objects: ObjectStore, known: KnownPage) -> PageResult | None:
    """Return a page that was read before; None where its segment is gone, or can't be had now."""
    try:
        with objects.get(known.segment_key) as pieces:
            return next((page for page in decode_segment(pieces) if page.number == known.number), None)
    except PipelineError:
        # Only time was to be saved: the page is read.
        return None
