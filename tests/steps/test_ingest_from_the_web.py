"""A source at a web server: what becomes of the job, by what the server says."""

import hashlib

import pytest

from pipeline.adapters.objects import S3Objects
from pipeline.domain import keys
from pipeline.domain.states import Step
from pipeline.ports.submissions import Submission
from tests.web import WebServer, says
from workers.wiring import Wiring

PDF = b"%PDF-1.7\n" + b"x" * 100_000


@pytest.fixture
def ingest(settings, rows):
    """Return a function that ingests a URL, by settings of its own, and gives the job's row."""
    made = []

    def run(url, *, attempts=1, max_bytes=1_000_000, **sources):
        given = {"http": True, "allowed_networks": ("127.0.0.1/32",), "ports": ()} | sources
        known = settings.model_copy(
            update={
                "sources": settings.sources.model_copy(update=given),
                "limits": settings.limits.model_copy(update={"max_file_bytes": max_bytes}),
            }
        )
        wiring = Wiring(known, actor="test")
        made.append(wiring)
        job_id = rows.submissions.insert(Submission(source_uri=url))
        for attempt in range(1, attempts + 1):
            rows.sql("UPDATE job SET not_before = NULL WHERE id = :id", id=job_id)
            wiring.steps.run(job_id, Step.INGEST, attempt, wiring.ingest)
        [row] = rows.sql("SELECT * FROM job WHERE id = :id", id=job_id)
        return row

    yield run
    for wiring in made:
        wiring.engine.dispose()


def test_a_document_is_fetched_and_stored_by_its_content(ingest, settings):
    with WebServer(says(body=PDF)) as server:
        row = ingest(server.url + "/box-17/ledger.pdf?signature=secret")
    assert (row.state, row.media_type, row.size_bytes) == ("planning", "application/pdf", len(PDF))
    assert (row.sha256, row.source_name) == (hashlib.sha256(PDF).hexdigest(), "ledger.pdf")
    with S3Objects(settings.objects).get(keys.original(row.sha256)) as pieces:
        assert b"".join(pieces) == PDF


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "source_not_found"), (410, "source_not_found"), (204, "source_not_found"), (302, "source_not_found"),
     (401, "source_not_allowed"), (403, "source_not_allowed")],
)  # fmt: skip
def test_a_refusal_is_final_and_a_query_is_not_repeated(ingest, status, code):
    with WebServer(says(status)) as server:
        row = ingest(server.url + "/1.pdf?signature=secret")
    assert (row.state, row.error_code) == ("rejected", code)
    assert str(status) in row.error_detail
    assert "secret" not in row.error_detail


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_server_that_fails_is_asked_again_later(ingest, status):
    with WebServer(says(status)) as server:
        row = ingest(server.url)
    assert (row.state, row.error_code, row.lost, row.failures) == ("submitted", "source_unavailable", 1, 0)
    assert row.not_before is not None


def test_a_body_that_is_cut_is_fetched_again_and_nothing_of_it_kept(ingest):
    answers = [says(body=PDF[:5000], **{"Content-Length": str(len(PDF))}), says(body=PDF)]

    def answer(handler):
        answers.pop(0)(handler)

    with WebServer(answer) as server:
        row = ingest(server.url, attempts=2)
    assert (row.state, row.size_bytes) == ("planning", len(PDF))


def test_a_server_that_never_answers_whole_is_given_up_with_that_cause(ingest):
    with WebServer(says(503)) as server:
        row = ingest(server.url, attempts=10)
    assert (row.state, row.error_code) == ("failed", "source_unavailable")
    assert len(server.asked) == 10


def test_a_file_that_says_that_it_is_too_large_is_not_fetched(ingest):
    with WebServer(says(body=b"", **{"Content-Length": "1000001"})) as server:
        row = ingest(server.url)
    assert (row.state, row.error_code) == ("rejected", "file_too_large")


def test_a_file_without_end_is_cut_at_the_limit(ingest):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.drip(b"%PDF" * 16384, every_s=0)

    with WebServer(endless) as server:
        row = ingest(server.url)
    assert (row.state, row.error_code) == ("rejected", "file_too_large")


@pytest.mark.parametrize(
    "sources",
    [{"allowed_networks": ()}, {"http": False}, {"hosts": ("archive.test",)}, {"ports": (443,)}],
    ids=["networks", "http", "hosts", "ports"],
)
def test_what_the_settings_do_not_allow_is_not_asked(ingest, sources):
    with WebServer(says(body=PDF)) as server:
        row = ingest(server.url + "/1.pdf", **sources)
    assert (row.state, row.error_code, server.asked) == ("rejected", "source_not_allowed", [])
