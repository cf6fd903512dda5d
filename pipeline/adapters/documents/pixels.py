"""Turns decoded pictures of every kind into upright RGB pages of a given size, a band at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from pipeline.ports.documents import Pixels

_BAND_PIXELS = 16_000_000
"""How much is converted at once: a bilevel scan of a gigapixel never exists in colour."""

_DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")
_WITH_ALPHA = ("RGBA", "RGBa", "LA", "La", "PA")
_TURNS = {
    2: (Image.Transpose.FLIP_LEFT_RIGHT,),
    3: (Image.Transpose.ROTATE_180,),
    4: (Image.Transpose.FLIP_TOP_BOTTOM,),
    5: (Image.Transpose.TRANSPOSE,),
    6: (Image.Transpose.ROTATE_270,),
    7: (Image.Transpose.TRANSVERSE,),
    8: (Image.Transpose.ROTATE_90,),
}
"""What makes a picture upright, by its orientation (EXIF 2.3, tag 274)."""


def rgb_page(image: Image.Image, width: int, height: int, orientation: int = 1) -> Pixels:
    """Return a loaded picture upright, at the size given, on white: `(height, width, 3)`, uint8."""
    stored = (height, width) if 5 <= orientation <= 8 else (width, height)
    page = _scaled(image, *stored)
    for turn in _TURNS.get(orientation, ()):
        page = page.transpose(turn)
    return np.array(page.convert("RGB"))


def _scaled(image: Image.Image, width: int, height: int) -> Image.Image:
    """Shrink by whole steps while converting, then to the exact size."""
    step = max(1, min(image.width // width, image.height // height))
    bands = list(_bands(image, step))
    whole = bands[0]
    if len(bands) > 1:
        whole = Image.new(whole.mode, (whole.width, sum(band.height for band in bands)))
        top = 0
        for band in bands:
            whole.paste(band, (0, top))
            top += band.height
    return whole if whole.size == (width, height) else whole.resize((width, height), Image.Resampling.LANCZOS)


def _bands(image: Image.Image, step: int) -> Iterator[Image.Image]:
    span = _span(image) if image.mode in _DEEP else None
    rows = max(1, _BAND_PIXELS // image.width // step) * step
    for top in range(0, image.height, rows):
        band = image.crop((0, top, image.width, min(top + rows, image.height)))
        plain = _stretched(band, span) if span else _plain(band)
        yield plain.reduce(step) if step > 1 else plain


def _plain(band: Image.Image) -> Image.Image:
    """Return a band in grey or RGB, on white where it is transparent."""
    if band.mode in _WITH_ALPHA or "transparency" in band.info:
        coloured = band.convert("RGBA")
        white = Image.new("RGB", band.size, "white")
        white.paste(coloured, mask=coloured.getchannel("A"))
        return white
    if band.mode == "LAB":
        return band.getchannel("L")
    if band.mode in ("1", "L"):
        return band.convert("L")
    return band.convert("RGB")


def _span(image: Image.Image) -> tuple[float, float]:
    """Return which values are black and white: for whole numbers 0 and the most that the bits in use can hold."""
    values: Any = np.asarray(image)
    if image.mode == "F":
        finite = values[np.isfinite(values)]
        return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    most = max(255, int(values.max()))
    return min(0.0, float(values.min())), float((1 << most.bit_length()) - 1)


def _stretched(band: Image.Image, span: tuple[float, float]) -> Image.Image:
    black, white = span
    values = np.nan_to_num(np.asarray(band, np.float32), nan=black, posinf=white, neginf=black)
    grey = (values - black) * (255 / ((white - black) or 1))
    return Image.fromarray(np.clip(grey + 0.5, 0, 255).astype(np.uint8))
