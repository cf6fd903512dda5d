"""A document read by a model behind a server, by the processes that read all others."""

from pipeline.domain.states import JobState
from tests.engines.test_openai_server import serving
from tests.system import scan

WHOLE = "# Box 17\n\nOf the harbour.\n\n| Ship | Tons |\n| --- | --- |\n| Swan | 120 |"


def test_a_document_is_read_by_a_model_behind_a_server(system, tmp_path):
    def answer(it, _request, turn):
        # Busy at first, as when it loads its model.
        if turn == 1:
            it.plain(503, {}, Retry_After="0")
        else:
            it.stream([WHOLE])

    with serving(answer) as server:
        system.environment["MUNIMENT_DEVICES__ENGINE"] = "openai-server"
        system.environment["MUNIMENT_DEVICES__ENGINE_OPTIONS__OPENAI_SERVER__URL"] = server.url
        system.start()
        job_id = system.submit(scan(tmp_path, 3))
        assert system.finished(job_id).state is JobState.SUCCEEDED
    document = system.document(job_id)
    assert [[block["kind"] for block in page["blocks"]] for page in document["pages"]] == [
        ["heading", "text", "table"]
    ] * 3
    assert {(page["engine"]["name"], page["engine"]["revision"]) for page in document["pages"]} == {
        ("openai-server", "reader")
    }
    assert "| Swan | 120 |" in system.output(job_id, "markdown")
