"""Pages rendered ahead of their recognition, as PNG objects of the store that live until they are read."""

import io

import numpy as np
from PIL import Image, PngImagePlugin

from pipeline.domain import keys
from pipeline.domain.document import ChunkId, JobId
from pipeline.domain.errors import PipelineError
from pipeline.domain.profiles import Profile
from pipeline.ports.documents import PageImage
from pipeline.ports.objects import ObjectStore

_DPI = "muniment:dpi"


def encode_page_image(page: PageImage) -> bytes:
    """Return the page as PNG, losslessly; level 1 costs a third of the default's time for a tenth more bytes."""
    note = PngImagePlugin.PngInfo()
    note.add_text(_DPI, repr(page.dpi))
    file = io.BytesIO()
    Image.fromarray(page.pixels).save(file, "PNG", compress_level=1, pnginfo=note)
    return file.getvalue()


def decode_page_image(number: int, content: bytes) -> PageImage:
    """Return the page that `encode_page_image` was given."""
    with Image.open(io.BytesIO(content)) as image:
        dpi = float(image.text[_DPI])  # type: ignore[attr-defined]
        return PageImage(number=number, pixels=np.array(image.convert("RGB")), dpi=dpi)


class RenderedPages:
    """The pages of one chunk that were rendered ahead, at the resolution that was asked for."""

    def __init__(self, objects: ObjectStore, job: JobId, chunk: ChunkId, dpi: float | None, profile: Profile) -> None:
        self._objects = objects
        self._job = job
        self._chunk = chunk
        self._dpi = dpi
        self._profile = profile

    def take(self, number: int) -> PageImage | None:
        """Return a page and remove it from the store; None if it was not rendered ahead, or can't be had."""
        key = self._key(number)
        try:
            with self._objects.get(key) as pieces:
                content = b"".join(pieces)
            self._objects.delete([key])
        except PipelineError:
            # Only time was to be saved: the reader renders the page itself.
            return None
        return decode_page_image(number, content)

    def _key(self, number: int) -> str:
        return keys.rendered_page(self._job, self._chunk, number, self._dpi, self._profile)
