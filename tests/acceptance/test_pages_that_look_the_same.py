"""A page that looks like one that was read before is taken over from there, through all processes, by its tenant."""

import pytest
from PIL import Image, ImageDraw

from pipeline.adapters.removals import PostgresRemovals
from pipeline.domain.states import JobState
from pipeline.steps.delete import Delete
from tests.adapters.documents.zips import zip_file


@pytest.fixture
def book(tmp_path):
    """A PDF with a title page, an empty one, the title page again, and another page."""

    def drawn(text):
        image = Image.new("L", (600, 300), 255)
        ImageDraw.Draw(image).text((30, 60), text, fill=0, font_size=40)
        return image

    pages = [drawn("HARBOUR LEDGER 1911"), drawn(""), drawn("HARBOUR LEDGER 1911"), drawn("TONNAGE 4711")]
    path = tmp_path / "book.pdf"
    pages[0].save(path, "PDF", save_all=True, append_images=pages[1:], resolution=100)
    return path


def pages_of(system, job_id):
    assert system.finished(job_id, within=180).state is JobState.SUCCEEDED
    return system.document(job_id)["pages"]


def sources(pages):
    return [(page["number"], page["reused"] and (page["reused"]["job_id"], page["reused"]["number"])) for page in pages]


def test_a_page_is_read_once_for_a_tenant(system, book):
    system.environment["MUNIMENT_DEVICES__ENGINE"] = "rapidocr"
    system.start()
    first = system.submit(book)
    read = pages_of(system, first)
    assert [page["outcome"] for page in read] == ["recognised", "blank", "recognised", "recognised"]
    assert [page["text"] for page in read] == ["HARBOUR LEDGER 1911", "", "HARBOUR LEDGER 1911", "TONNAGE 4711"]
    assert sources(read) == [(1, None), (2, None), (3, (str(first), 1)), (4, None)]

    again = pages_of(system, system.submit(book))
    assert [page["text"] for page in again] == [page["text"] for page in read]
    assert [page["outcome"] for page in again] == [page["outcome"] for page in read]
    assert sources(again) == [(1, (str(first), 1)), (2, None), (3, (str(first), 1)), (4, (str(first), 4))]
    assert [page["engine"] for page in again] == [page["engine"] for page in read]

    own = pages_of(system, system.submit(book, options={"reuse": False}))
    assert [page["reused"] for page in own] == [None] * 4
    for more in ({"options": {"words": True}}, {"tenant": "museum"}):
        other = system.submit(book, **more)
        assert sources(pages_of(system, other)) == [(1, None), (2, None), (3, (str(other), 1)), (4, None)]

    known = "SELECT digest FROM known_page WHERE job_id = :id"
    assert len(system.rows.sql(known, id=first)) == 2
    assert Delete(rows=PostgresRemovals(system.rows.engine), objects=system.objects)(first)
    assert system.rows.sql(known, id=first) == []
    anew = pages_of(system, system.submit(book))
    assert [page["text"] for page in anew] == [page["text"] for page in read]
    assert str(first) not in str(sources(anew))

    swift = pages_of(system, system.submit(book, options={"profile": "fast"}))
    assert [page["text"] for page in swift] == [page["text"] for page in read]
    assert swift[0]["reused"] is None
    assert [page["engine"]["revision"].split("-")[-4] for page in (read[0], swift[0])] == ["balanced", "fast"]


def test_pages_of_an_archive_name_their_own_files_though_they_look_the_same(system, tmp_path):
    image = Image.new("L", (600, 300), 255)
    ImageDraw.Draw(image).text((30, 60), "HARBOUR LEDGER 1911", fill=0, font_size=40)
    image.save(tmp_path / "1.png")
    picture = (tmp_path / "1.png").read_bytes()
    archive = zip_file(
        tmp_path, {"Nachlass Q7/1.png": picture, "Nachlass Q7/2.png": picture, "Nachlass Q7/3.png": b"no picture"}
    )
    names = ["Nachlass Q7/1.png", "Nachlass Q7/2.png", "Nachlass Q7/3.png"]
    system.environment["MUNIMENT_DEVICES__ENGINE"] = "rapidocr"
    system.start()
    job_id = system.submit(archive)
    assert system.finished(job_id, within=180).state is JobState.PARTIAL
    pages = system.document(job_id)["pages"]
    assert [(page["source_file"], page["outcome"]) for page in pages] == list(
        zip(names, ["recognised", "recognised", "failed"], strict=True)
    )
    assert sources(pages) == [(1, None), (2, (str(job_id), 1)), (3, None)]
    rows = system.rows.sql("SELECT source_file FROM page WHERE job_id = :id ORDER BY number", id=job_id)
    assert [row.source_file for row in rows] == names
    logs = "".join(path.read_text() for path in system.folder.glob("*.log"))
    events = system.rows.sql("SELECT detail::text AS said FROM event WHERE job_id = :id", id=job_id)
    assert "recognise" in logs
    assert "Nachlass" not in logs + "".join(event.said for event in events)
