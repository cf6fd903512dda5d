"""A protected document is read with the password of its job, and that leaves no trace anywhere."""

import base64
import json
import threading
from contextlib import contextmanager, suppress

import pikepdf
import psutil
import redis
from sqlalchemy import inspect

from pipeline.domain.password import Password
from pipeline.domain.states import JobState
from tests.system import scan

MARKER = "Marker-4711-Sesame"
TRACES = [MARKER, *(base64.b64encode(bytes(before) + MARKER.encode()).decode()[4:-4] for before in range(3))]
"""As it is, and as it would be within a message's body, wherever it stood there."""


def protected(folder):
    path = scan(folder, 3)
    with pikepdf.open(path, allow_overwriting_input=True) as pdf:
        pdf.save(path, encryption=pikepdf.Encryption(user=MARKER, owner=MARKER))
    return path


@contextmanager
def everything_that_the_broker_is_told(settings):
    """Yield a list of all commands that the server gets, those of other tests among them."""
    heard = []

    def listen():
        # The connection is closed under it in the end.
        with suppress(redis.ConnectionError, OSError, ValueError, AttributeError):
            while True:
                heard.append(repr(monitor.connection.read_response()))

    url = settings.broker.url.get_secret_value()
    with redis.Redis.from_url(url, socket_timeout=None) as broker, broker.monitor() as monitor:
        listener = threading.Thread(target=listen)
        listener.start()
        try:
            yield heard
        finally:
            monitor.connection.disconnect()
    listener.join()


def seen_of_processes():
    """What others on the host may see of our processes: arguments and environments."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            found.append(f"{process.cmdline()} {process.environ()}")
    return found


def rows_of_all_tables(system):
    tables = set(inspect(system.rows.engine).get_table_names())
    return {
        table: [row[0] for row in system.rows.sql(f"SELECT row_to_json(r)::text FROM {table} r")] for table in tables
    }


def stored(system):
    with_names = system.objects._client.list_objects(system.settings.objects.bucket, recursive=True)
    names = [item.object_name for item in with_names]
    contents = []
    for name in names:
        with system.objects.get(name) as pieces:
            contents.append(b"".join(pieces))
    return names, contents


def test_a_protected_document_is_read_and_its_password_leaves_no_trace(system, tmp_path):
    gate = system.simulate_gate()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    system.environment["TMPDIR"] = str(temporary)
    with everything_that_the_broker_is_told(system.settings) as heard:
        system.start()
        job_id = system.submit(protected(tmp_path), password=Password(MARKER), options={"lane": "gpu"})
        system.in_work()
        processes, tables = seen_of_processes(), rows_of_all_tables(system)
        gate.touch()
        assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 3)
    assert any(str(job_id) in command for command in heard)
    assert len(processes) >= 5
    assert [json.loads(row)["password"] for row in tables.pop("job_secret")] == [MARKER]
    after = rows_of_all_tables(system)
    assert after["job_secret"] == []
    names, contents = stored(system)
    assert len(contents) >= 5
    assert "muniment.render" in system.log("io0")
    everywhere = [*processes, *map(str, (tables, after)), *heard, *names, repr(system.status(job_id))]
    assert not [text for text in everywhere for trace in TRACES if trace in text]
    assert not [content for content in contents if MARKER.encode() in content]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 4
    assert not [path for path in files if MARKER.encode() in path.read_bytes()]


def test_a_wrong_password_is_told_and_another_try_reads_the_document(system, tmp_path):
    system.start()
    path = protected(tmp_path)
    without, wrong = system.submit(path), system.submit(path, password=Password("wrong-" + MARKER))
    assert system.finished(without).error_code == "password_required"
    refused = system.finished(wrong)
    assert (refused.state, refused.error_code) == (JobState.REJECTED, "password_wrong")
    assert MARKER not in refused.error_detail
    assert system.rows.retry([wrong], password=Password(MARKER)) == [wrong]
    assert system.finished(wrong).state is JobState.SUCCEEDED
