"""Walks what a PDF page draws, without drawing it: text, pictures with their resolution, lines, annotations."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import hypot
from typing import Any

import pypdfium2.raw as pdfium

from pipeline.adapters.documents.geometry import POINTS_PER_INCH

_MAX_OBJECTS = 20_000
_MAX_DEPTH = 8
_GRID = 64
"""The page is divided into this many rows and columns to see how much of it pictures cover."""
_COVERING_SHARE = 0.5
_CELL_PT = 72.0
"""Room for a character of 12 point text, square points."""
_CELL_PX = 120.0
"""Pixels below which a character can't be read."""

_LEAVES_NO_MARK = frozenset({pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_POPUP})
_MAY_HOLD_TEXT = frozenset({pdfium.FPDF_ANNOT_FREETEXT, pdfium.FPDF_ANNOT_STAMP, pdfium.FPDF_ANNOT_INK})
_CAPTIONED_FIELDS = frozenset({pdfium.FPDF_FORMFIELD_PUSHBUTTON, pdfium.FPDF_FORMFIELD_SIGNATURE})
_VALUED_FIELDS = frozenset(
    {pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX}
)
_NOT_SHOWN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW

Box = tuple[float, float, float, float]
"""Left, bottom, right, top in the page's own space, 1/72 inch, y upwards."""
Matrix = tuple[float, float, float, float, float, float]
_IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image as it lies on the page."""

    box: Box
    """Within the page box."""
    width_px: int
    height_px: int
    dpi: float
    handle: Any = field(repr=False)
    """PDFium's page object, valid while the page is open."""

    @property
    def area(self) -> float:
        """Return the area on the page in square points."""
        left, bottom, right, top = self.box
        return (right - left) * (top - bottom)

    @property
    def capacity(self) -> int:
        """Return for how many characters of ordinary size it has room and pixels."""
        return int(min(self.area / _CELL_PT, self.width_px * self.height_px / _CELL_PX))


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldValue:
    """What somebody filled into a form."""

    text: str
    box: Box


@dataclass(slots=True, kw_only=True)
class PageContents:
    """What a page draws."""

    page_box: Box
    objects: int = 0
    text_objects: int = 0
    hidden_text_objects: int = 0
    path_segments: int = 0
    pictures: list[Picture] = field(default_factory=list)
    shown_annotations: int = 0
    has_drawn_annotations: bool = False
    field_values: list[FieldValue] = field(default_factory=list)

    @property
    def draws(self) -> bool:
        """Whether anything leaves a mark."""
        unseen = self.hidden_text_objects if self.hidden_text_is_all_there_is else 0
        return self.objects > unseen or self.shown_annotations > 0

    @property
    def hidden_share(self) -> float:
        """Return the share of text objects that a reader can't see."""
        return self.hidden_text_objects / self.text_objects if self.text_objects else 0.0

    @property
    def covered_share(self) -> float:
        """Return the share of the page that pictures cover, overlaps counted once."""
        rows = [0] * _GRID
        for picture in self.pictures:
            first_column, first_row, end_column, end_row = self._cells(picture.box)
            columns = (1 << end_column) - (1 << first_column)
            for row in range(first_row, end_row):
                rows[row] |= columns
        return sum(row.bit_count() for row in rows) / _GRID**2

    @property
    def scan_dpi(self) -> float | None:
        """Return the resolution of the pictures that make up the page, or None where they do not."""
        if self.covered_share < _COVERING_SHARE:
            return None
        return max(self.pictures, key=lambda picture: picture.area).dpi

    @property
    def hidden_text_is_all_there_is(self) -> bool:
        """Whether text that can't be seen lies over nothing that could show it."""
        return self.hidden_text_objects > 0 and not self.pictures and not self.path_segments

    def _cells(self, box: Box) -> tuple[int, int, int, int]:
        left, bottom, right, top = self.page_box
        x_step, y_step = (right - left) / _GRID, (top - bottom) / _GRID
        return (
            round((box[0] - left) / x_step),
            round((box[1] - bottom) / y_step),
            round((box[2] - left) / x_step),
            round((box[3] - bottom) / y_step),
        )


def contents_of(page: Any, page_box: Box) -> PageContents:
    """Return what a page draws; of a page with more than 20,000 objects, what the first of them are."""
    found = PageContents(page_box=page_box)
    for kind, handle, matrix in _objects(page.raw, _IDENTITY, 0, found):
        if kind == pdfium.FPDF_PAGEOBJ_TEXT:
            found.text_objects += 1
            found.hidden_text_objects += is_hidden(handle)
        elif kind == pdfium.FPDF_PAGEOBJ_PATH:
            found.path_segments += max(0, pdfium.FPDFPath_CountSegments(handle))
        elif kind == pdfium.FPDF_PAGEOBJ_IMAGE and (picture := _picture(handle, matrix, page_box)):
            found.pictures.append(picture)
            if picture.area >= _COVERING_SHARE * _area(page_box):
                found.hidden_text_objects = found.text_objects
    _add_annotations(page, found)
    return found


def is_hidden(text_object: Any) -> bool:
    """Whether a text object is drawn in a mode that leaves no mark."""
    return bool(pdfium.FPDFTextObj_GetTextRenderMode(text_object) == pdfium.FPDF_TEXTRENDERMODE_INVISIBLE)


def bytes_per_pixel(page: Any, picture: Picture) -> float:
    """Return how much memory a pixel of a picture takes, decoded."""
    metadata = pdfium.FPDF_IMAGEOBJ_METADATA()
    if not pdfium.FPDFImageObj_GetImageMetadata(picture.handle, page.raw, metadata) or not metadata.bits_per_pixel:
        return 4.0
    return float(metadata.bits_per_pixel) / 8


def _objects(parent: Any, matrix: Matrix, depth: int, found: PageContents) -> Iterator[tuple[int, Any, Matrix]]:
    count, get = (
        (pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject)
        if depth
        else (pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject)
    )
    for index in range(count(parent)):
        if found.objects >= _MAX_OBJECTS:
            return
        handle = get(parent, index)
        kind = pdfium.FPDFPageObj_GetType(handle)
        if kind == pdfium.FPDF_PAGEOBJ_FORM:
            if depth < _MAX_DEPTH:
                yield from _objects(handle, _product(_matrix_of(handle), matrix), depth + 1, found)
        else:
            found.objects += 1
            yield kind, handle, matrix


def _matrix_of(handle: Any) -> Matrix:
    m = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(handle, m):
        return _IDENTITY
    return (m.a, m.b, m.c, m.d, m.e, m.f)


def _product(inner: Matrix, outer: Matrix) -> Matrix:
    a, b, c, d, e, f = inner
    g, h, i, j, k, m = outer
    return (a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m)


def _picture(handle: Any, matrix: Matrix, page_box: Box) -> Picture | None:
    width, height = ctypes.c_uint(), ctypes.c_uint()
    if not pdfium.FPDFImageObj_GetImagePixelSize(handle, width, height):
        return None
    a, b, c, d, e, f = _product(_matrix_of(handle), matrix)
    xs, ys = sorted((e, e + a, e + c, e + a + c)), sorted((f, f + b, f + d, f + b + d))
    box = _clipped((xs[0], ys[0], xs[-1], ys[-1]), page_box)
    across, up = hypot(a, b), hypot(c, d)
    if not box or not across or not up:
        return None
    dpi = POINTS_PER_INCH * min(width.value / across, height.value / up)
    return Picture(box=box, width_px=width.value, height_px=height.value, dpi=dpi, handle=handle)


def _clipped(box: Box, page_box: Box) -> Box | None:
    left, bottom = max(box[0], page_box[0]), max(box[1], page_box[1])
    right, top = min(box[2], page_box[2]), min(box[3], page_box[3])
    return (left, bottom, right, top) if left < right and bottom < top else None


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _add_annotations(page: Any, found: PageContents) -> None:
    for index in range(pdfium.FPDFPage_GetAnnotCount(page.raw)):
        annotation = pdfium.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            _add_annotation(page, annotation, found)
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)


def _add_annotation(page: Any, annotation: Any, found: PageContents) -> None:
    subtype = pdfium.FPDFAnnot_GetSubtype(annotation)
    if subtype in _LEAVES_NO_MARK or pdfium.FPDFAnnot_GetFlags(annotation) & _NOT_SHOWN:
        return
    found.shown_annotations += 1
    found.has_drawn_annotations |= subtype in _MAY_HOLD_TEXT
    if subtype == pdfium.FPDF_ANNOT_WIDGET and page.formenv:
        kind = pdfium.FPDFAnnot_GetFormFieldType(page.formenv.raw, annotation)
        found.has_drawn_annotations |= kind in _CAPTIONED_FIELDS
        if kind in _VALUED_FIELDS and (value := _field_value(page, annotation, found.page_box)):
            found.field_values.append(value)


def _field_value(page: Any, annotation: Any, page_box: Box) -> FieldValue | None:
    form = page.formenv.raw
    size = pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, None, 0)
    buffer = ctypes.create_string_buffer(size)
    pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    text = buffer.raw.decode("utf-16-le", errors="replace").rstrip("\0").strip()
    rect = pdfium.FS_RECTF()
    if not text or not pdfium.FPDFAnnot_GetRect(annotation, rect):
        return None
    box = _clipped((rect.left, rect.bottom, rect.right, rect.top), page_box)
    return FieldValue(text=text, box=box) if box else None
