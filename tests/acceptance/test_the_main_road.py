"""Documents on their real way: rows, dispatcher, Celery over Valkey, workers with runners, an S3 store."""

import json

import psycopg
from jsonschema import Draft202012Validator

from pipeline.domain.states import JobState
from pipeline.schemas import document_schema
from tests.system import scan
from tests.waiting import eventually


def text_pdf(folder, lines, name="text.pdf"):
    """Write a PDF page with a text layer, by hand: no library writes a smaller one."""
    content = "BT /F1 12 Tf 14 TL 72 720 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        " /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
    ]
    body, offsets = "%PDF-1.4\n", []
    for number, text in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    body += f"xref\n0 5\n0000000000 65535 f \n{table}trailer << /Root 1 0 R /Size 5 >>\nstartxref\n{len(body)}\n%%EOF"
    path = folder / name
    path.write_text(body)
    return path


def test_a_mixed_batch_ends_as_each_document_deserves(system, tmp_path):
    system.start(slots=2)
    lines = ["The minutes of the board were read and found to be", "in good order; the treasurer then gave his report."]
    scanned = system.submit(scan(tmp_path, 12))
    text = system.submit(text_pdf(tmp_path, lines))
    (tmp_path / "empty.pdf").touch()
    empty = system.submit(tmp_path / "empty.pdf")
    (tmp_path / "salad.pdf").write_text("potato salad")
    salad = system.submit(tmp_path / "salad.pdf")

    assert system.finished(scanned).state is JobState.SUCCEEDED
    system.assert_whole(scanned, 12)
    assert system.finished(text).state is JobState.SUCCEEDED
    [page] = system.document(text)["pages"]
    assert page["outcome"] == "text_layer"
    assert page["text"].split() == " ".join(lines).split()
    assert (system.finished(empty).state, system.status(empty).error_code) == (JobState.REJECTED, "empty_file")
    assert (system.finished(salad).state, system.status(salad).error_code) == (JobState.REJECTED, "not_a_document")


def test_every_output_is_written_and_valid(system, tmp_path):
    system.start()
    job_id = system.submit(scan(tmp_path, 3))
    status = system.finished(job_id)
    document = system.document(job_id)
    Draft202012Validator(document_schema()).validate(document)
    assert document["source"]["name"] == "scan.pdf"
    assert document["pages"][0]["engine"]["name"] == "simulated"
    written = {}
    for name, key in status.result_keys.items():
        with system.objects.get(key) as pieces:
            written[name] = b"".join(pieces).decode()
    assert written["text"].split("\f") == ["page 1\n", "page 2\n", "page 3\n"]
    assert "<!-- page 2 -->" in written["markdown"]
    assert json.loads(written["json"]) == document


def test_only_the_formats_asked_for_are_written(system, tmp_path):
    system.start()
    job_id = system.submit(scan(tmp_path, 1), options={"formats": ["text"]})
    assert list(system.finished(job_id).result_keys) == ["text"]


def test_only_the_pages_asked_for_are_read(system, tmp_path):
    system.start()
    job_id = system.submit(scan(tmp_path, 12), options={"pages": "11-,2-4"})
    status = system.finished(job_id)
    assert (status.state, status.page_count) == (JobState.SUCCEEDED, 5)
    document = system.document(job_id)
    Draft202012Validator(document_schema()).validate(document)
    assert (document["page_count"], document["source"]["pages"]) == (5, "2-4,11-")
    wanted = [2, 3, 4, 11, 12]
    assert [(page["number"], page["text"]) for page in document["pages"]] == [(n, f"page {n}") for n in wanted]
    assert [page.number for page in system.rows.ledger.pages(job_id)] == wanted
    assert system.output(job_id, "text") == "\f".join(f"page {number}\n" for number in wanted)
    assert system.output(job_id, "markdown").startswith("<!-- page 2 -->\n")
    lacking = system.finished(system.submit(scan(tmp_path, 3), options={"pages": "2-4"}))
    assert (lacking.state, lacking.error_code) == (JobState.REJECTED, "invalid_options")
    assert lacking.error_detail == "pages names page 4, but the document has 3"


def test_a_row_inserted_from_outside_is_processed_like_any_other(system, tmp_path):
    system.start()
    system.objects.put("box 17/0001.pdf", scan(tmp_path, 2).read_bytes(), media_type="application/pdf")
    url = system.settings.database.url.get_secret_value().replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        uri = f"s3://{system.settings.objects.bucket}/box%2017/0001.pdf"
        [job_id] = connection.execute("INSERT INTO job (source_uri) VALUES (%s) RETURNING id", [uri]).fetchone()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 2)
    assert system.document(job_id)["source"]["name"] == "0001.pdf"


def test_sources_and_options_are_judged_on_the_row(system, tmp_path):
    root = tmp_path / "inbox"
    root.mkdir()
    (tmp_path / "outside.pdf").write_bytes(b"%PDF-1.4")
    scan(root, 1, name="in.pdf")
    system.environment["MUNIMENT_SOURCES__FILE_ROOTS"] = json.dumps([str(root)])
    system.environment["MUNIMENT_SOURCES__TENANT_BUCKETS"] = '{"museum": ["museum-scans"]}'
    system.start(slots=0)
    bucket = system.settings.objects.bucket
    refused = {
        f"s3://{bucket}/no/such/key": "source_not_found",
        f"s3://{bucket}/originals/ab/abcd": "source_not_allowed",
        "s3://no-such-bucket/key": "source_not_found",
        "s3://museum-scans/key": "source_not_allowed",
        "file:///etc/passwd": "source_not_allowed",
        f"file://{root}/../outside.pdf": "source_not_allowed",
        f"file://{root}/missing.pdf": "source_not_found",
        "ftp://example.org/a.pdf": "source_not_allowed",
        "just a name": "source_not_allowed",
    }
    jobs = {
        system.rows.sql("INSERT INTO job (source_uri) VALUES (:uri) RETURNING id", uri=uri)[0].id: code
        for uri, code in refused.items()
    }
    [accepted] = system.rows.sql("INSERT INTO job (source_uri) VALUES (:uri) RETURNING id", uri=f"file://{root}/in.pdf")
    [senseless] = system.rows.sql(
        'INSERT INTO job (source_uri, options) VALUES (:uri, \'{"dpi": 5, "colour": true}\') RETURNING id',
        uri=f"file://{root}/in.pdf",
    )
    [unread] = system.rows.sql(
        "INSERT INTO job (source_uri, options) VALUES (:uri, CAST(:options AS jsonb)) RETURNING id",
        uri=f"file://{root}/in.pdf",
        options='{"engine": "rapidocr", "languages": ["de", "ru"]}',
    )
    ended = {job_id: system.finished(job_id) for job_id in jobs}
    assert {job_id: status.error_code for job_id, status in ended.items()} == jobs
    assert {status.state for status in ended.values()} == {JobState.REJECTED}
    eventually(lambda: system.status(accepted.id).page_count == 1)
    status = system.finished(senseless.id)
    assert (status.state, status.error_code) == (JobState.REJECTED, "invalid_options")
    assert "dpi" in status.error_detail
    assert "colour" in status.error_detail
    status = system.finished(unread.id)
    assert (status.state, status.error_code) == (JobState.REJECTED, "invalid_options")
    assert status.error_detail == "languages: engine rapidocr does not read ru; ask another"


def test_a_long_document_for_an_accelerator_is_rendered_ahead(system, tmp_path):
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 6), options={"lane": "gpu"})
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 6)
    assert {row.lane for row in system.rows.sql("SELECT lane FROM chunk")} == {"gpu"}
    assert "muniment.render" in system.log("io0")
    # What was rendered ahead is gone once it was read.
    [chunk] = system.rows.sql("SELECT id FROM chunk WHERE ordinal = 0")
    assert system.objects.size(f"jobs/{job_id}/chunks/{chunk.id}/pages/000001-own.png") is None


def test_the_same_upload_twice_is_stored_once(system, tmp_path):
    system.start()
    path = scan(tmp_path, 1)
    first, second = system.submit(path), system.submit(path)
    system.finished(first)
    system.finished(second)
    hashes = {row.sha256 for row in system.rows.sql("SELECT sha256 FROM job")}
    assert len(hashes) == 1
    uploads = system.rows.sql("SELECT upload_key FROM job")
    assert all(system.objects.size(row.upload_key) is None for row in uploads)
