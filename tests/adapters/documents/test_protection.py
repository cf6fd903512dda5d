"""Encrypted documents open with their password alone, whichever reader asks and wherever it runs."""

from datetime import timedelta
from pathlib import Path

import pikepdf
import pytest

from pipeline.adapters.documents.inspection import BoundedInspector
from pipeline.adapters.documents.opener import FileOpener
from pipeline.adapters.documents.rendering import BoundedRenderer
from pipeline.adapters.rendered_pages import decode_page_image
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.password import Password
from tests.adapters.documents.builders import Page, limits, pdf_bytes, pdf_file, text

SESAME = Password("open sesame")
BOUNDS = {"timeout": timedelta(seconds=60), "max_memory_bytes": 2 * 1024**3}


def protected(folder: Path, password: str = SESAME.reveal, revision: int = 6) -> Path:
    encryption = pikepdf.Encryption(user=password, owner="another", R=revision, aes=revision > 3, metadata=revision > 3)
    return pdf_file(folder, Page(text("Kept apart")), encryption=encryption)


def read(path: Path, password: Password | None) -> str:
    with FileOpener(limits()).open(path, password=password) as document:
        return document.text_layer(1).blocks[0].text


def code_of(path: Path, password: Password | None) -> ErrorCode:
    with pytest.raises(Rejected) as refusal:
        read(path, password)
    assert password is None or password.reveal not in refusal.value.message
    return refusal.value.code


# Before PDF 2.0, which is revision 6, there is no way to say the last one.
@pytest.mark.parametrize(
    ("password", "revision"),
    [(password, revision) for password in ("open sesame", "Schlüssel", "10 €") for revision in (3, 4, 6)]
    + [("鑰匙", 6)],
)
def test_a_protected_pdf_opens_with_its_password(tmp_path: Path, password: str, revision: int) -> None:
    assert read(protected(tmp_path, password, revision), Password(password)) == "Kept apart"


def test_the_owners_password_opens_it_as_well(tmp_path: Path) -> None:
    assert read(protected(tmp_path), Password("another")) == "Kept apart"


def test_without_one_it_is_asked_for_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    path = protected(tmp_path)
    assert code_of(path, None) is ErrorCode.PASSWORD_REQUIRED
    assert code_of(path, Password("abracadabra")) is ErrorCode.PASSWORD_WRONG
    assert code_of(path, Password("假的")) is ErrorCode.PASSWORD_WRONG


def test_a_document_that_needs_none_takes_one(tmp_path: Path) -> None:
    assert read(pdf_file(tmp_path, Page(text("Open to all"))), SESAME) == "Open to all"


@pytest.mark.parametrize("password", ["open sesame", "Schlüssel"])
def test_one_that_has_to_be_repaired_as_well_opens(tmp_path: Path, password: str) -> None:
    path = protected(tmp_path, password, revision=4)
    damaged = path.read_bytes().replace(b"startxref", b"startxxxx")
    path.write_bytes(damaged[: damaged.rindex(b"startxxxx")])
    assert read(path, Password(password)) == "Kept apart"
    assert code_of(path, None) is ErrorCode.PASSWORD_REQUIRED


def test_the_children_that_inspect_and_render_are_given_it(tmp_path: Path) -> None:
    path = protected(tmp_path)
    inspector = BoundedInspector(limits(), **BOUNDS)
    assert inspector.inspect(path, SESAME).page_count == 1
    with pytest.raises(Rejected) as refusal:
        inspector.inspect(path, Password("abracadabra"))
    assert refusal.value.code is ErrorCode.PASSWORD_WRONG
    renderer = BoundedRenderer(limits(), **BOUNDS)
    [(number, image)] = renderer.render(path, [1], 72, SESAME)
    assert decode_page_image(number, image).width_px == 612
    assert list(renderer.render(path, [1], 72)) == []


def test_a_password_that_only_looks_like_one_is_no_way_in(tmp_path: Path) -> None:
    """An empty user password protects nothing: such files open for everybody."""
    content = pdf_bytes(Page(text("Open")), encryption=pikepdf.Encryption(user="", owner="another"))
    path = tmp_path / "open.pdf"
    path.write_bytes(content)
    assert read(path, None) == "Open"
