"""What a collector is told of jobs: real processes, and a server that takes OTLP over HTTP."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pipeline.domain.states import JobState
from pipeline.embedded.ports import PortPicker
from pipeline.monitoring import tracing
from pipeline.monitoring.tracing import check_traces
from pipeline.settings import SettingsError, TraceSettings
from tests.system import scan
from tests.waiting import eventually


class Collector:
    """Keeps the spans that it is told of."""

    def __init__(self):
        self.spans = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        collector.spans += scope.spans
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def of(self, job_id):
        return [span for span in self.spans if span.trace_id == job_id.bytes]


@pytest.fixture
def collector():
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    yield collector
    collector.server.shutdown()
    thread.join()
    collector.server.server_close()


def attributes(span):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}


def test_a_job_is_a_trace_whose_spans_are_what_the_rows_have(system, collector, tmp_path):
    system.environment |= {"MUNIMENT_TRACES__ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    system.simulate(faults={"7": "kill"}, tokens=60)
    system.start()
    job_id = system.submit(scan(tmp_path, 10))
    assert system.finished(job_id).state is JobState.PARTIAL
    (tmp_path / "salad.pdf").write_text("potato salad")
    rejected = system.submit(tmp_path / "salad.pdf")
    assert system.finished(rejected).state is JobState.REJECTED

    eventually(lambda: "job" in {span.name for span in collector.of(job_id)})
    attempts = system.rows.sql("SELECT chunk_id, attempt, outcome, error_code, peak_bytes FROM chunk_attempt")
    eventually(lambda: len(collector.of(job_id)) >= len(attempts) + 6)
    spans = collector.of(job_id)
    [whole] = [span for span in spans if span.name == "job"]
    assert {span.parent_span_id for span in spans if span is not whole} == {whole.span_id}
    assert whole.parent_span_id == b""
    assert sorted(span.name for span in spans if span.name not in ("job", "recognise")) == [
        *("deliver", "export", "ingest", "merge", "split")
    ]
    told = [attributes(span) for span in spans if span.name == "recognise"]
    assert {(each["muniment.chunk.id"], each["muniment.attempt"], each["muniment.outcome"]) for each in told} == {
        (str(row.chunk_id), row.attempt, row.outcome) for row in attempts
    }
    assert {each["error.type"] for each in told if each["muniment.outcome"] == "failed"} == {"process_died"}
    assert sum(each.get("muniment.pages.recognised", 0) for each in told) == 9
    assert sum(each.get("muniment.pages.failed", 0) for each in told) == 1
    assert sum(each.get("muniment.tokens", 0) for each in told) == 9 * 60
    assert all(whole.start_time_unix_nano <= span.start_time_unix_nano for span in spans)
    assert all(span.end_time_unix_nano <= whole.end_time_unix_nano + 1e9 for span in spans)

    eventually(lambda: len(collector.of(rejected)) >= 2)
    refused = {span.name: attributes(span)["error.type"] for span in collector.of(rejected)}
    assert refused == {"ingest": "not_a_document", "job": "not_a_document"}
    assert "salad" not in str(collector.spans)


def test_a_collector_that_is_away_holds_nothing_up(system, tmp_path):
    nobody = PortPicker(tmp_path).pick()
    system.environment |= {
        "MUNIMENT_TRACES__ENDPOINT": f"http://127.0.0.1:{nobody}/v1/traces",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    system.start()
    job_id = system.submit(scan(tmp_path, 3))
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 3)


def test_who_asks_for_traces_without_the_package_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(tracing, "find_spec", lambda name: None)
    check_traces(TraceSettings())
    with pytest.raises(SettingsError, match=r"muniment\[traces\]"):
        check_traces(TraceSettings(endpoint="http://collector:4318/v1/traces"))
