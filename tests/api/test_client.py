"""The client, and the commands that work through it, against a real server."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from click.testing import CliRunner

from pipeline.api.schemas import JobFields, Options
from pipeline.cli import cli
from pipeline.client import ApiError, Client
from pipeline.domain.options import OutputFormat
from pipeline.domain.upload_parts import PART_BYTES
from pipeline.domain.webhooks import WebhookEvent
from tests.api.test_submitting import PDF
from tests.api.test_watching import flagged
from tests.faults.proxy import Proxy, Rule
from tests.rows import unknown
from tests.system import ROOT
from tests.waiting import eventually

LARGE = b"%PDF-1.7\n" + random.Random(5).randbytes(2 * PART_BYTES)


@pytest.fixture
def client(api, tenant):
    return Client(api.url, api.key(tenant=tenant).token)


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "box 17.pdf"
    path.write_bytes(PDF)
    return path


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "box 18.pdf"
    path.write_bytes(LARGE)
    return path


@pytest.fixture
def command(api, museum, monkeypatch):
    """Run a command of ours through the API; return its exit code, and what it printed on either side."""
    monkeypatch.setenv("MUNIMENT_SERVER", api.url)
    monkeypatch.setenv("MUNIMENT_KEY", museum.token)

    def run(*arguments):
        ended = CliRunner().invoke(cli, [str(argument) for argument in arguments])
        if ended.exception and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return ended.exit_code, ended.stdout, ended.stderr

    return run


FIELDS = JobFields(
    label="box-17",
    priority=5,
    deadline=datetime(2099, 1, 1, tzinfo=UTC),
    hours="20:00-06:00",
    password="open sesame",
    callback_url="https://museum.test/hooks",
    callback_events=[WebhookEvent.RUNNING, WebhookEvent.FAILED],
    options=Options(dpi=300, formats=[OutputFormat.TEXT, OutputFormat.JSON]),
)


@pytest.mark.parametrize("name", ["small", "large"])
def test_a_file_arrives_with_all_that_was_said_of_it(api, client, request, name):
    path = request.getfixturevalue(name)
    job = client.submit(path, FIELDS)
    assert api.stored(job.id) == path.read_bytes()
    assert (job.name, job.label, job.priority, job.hours) == (path.name, "box-17", 5, "20:00-06:00")
    assert job.deadline == FIELDS.deadline
    assert (job.callback_url, job.callback_events) == (FIELDS.callback_url, FIELDS.callback_events)
    assert job.options == {"dpi": 300.0, "formats": ["text", "json"]}
    assert api.rows.sql("SELECT password FROM job_secret WHERE job_id = :id", id=job.id)[0].password == "open sesame"


@pytest.mark.parametrize("name", ["small", "large"])
def test_the_same_idempotency_key_gives_the_same_job(client, request, name):
    path = request.getfixturevalue(name)
    first, second = (client.submit(path, idempotency_key="box-17/1") for _ in range(2))
    assert first.id == second.id
    assert client.submit(path).id != first.id


def test_a_uri_is_handed_in(client):
    assert client.submit_uri("s3://archive/1.pdf", JobFields(name="one")).name == "one"


def test_jobs_and_pages_come_in_pieces_and_are_all_there(api, client, tenant):
    ids = [str(api.rows.submitted(tenant=tenant)) for _ in range(3)]
    assert [str(job.id) for job in client.jobs()] == ids[::-1]
    assert [str(job.id) for job in client.jobs(limit=2)] == ids[:0:-1]
    job_id = api.read(*(f"page {number}" for number in range(1, 6)), tenant=tenant, label="box-17")
    assert [page.number for page in client.pages(job_id)] == [1, 2, 3, 4, 5]
    assert client.batch("box-17").pages.done == 5


@pytest.mark.parametrize("size_bytes", [100, 100_000], ids=["in the answer", "behind a link"])
def test_a_result_is_streamed(api, client, tenant, size_bytes):
    text = ("what was read " * size_bytes).encode()[:size_bytes]
    job_id = UUID(str(api.ended(tenant=tenant, result=text)))
    with client.result(job_id, OutputFormat.TEXT) as pieces:
        assert b"".join(pieces) == text


def test_flagged_pages_come_worst_first_and_are_all_there(api, client, command, tenant):
    job_id = flagged(api, *(number / 1000 for number in range(60)), tenant=tenant, label="box-1")
    seen = list(client.review(label="box-1", flag="blurred", min_score=0.001, since=datetime(2020, 1, 1, tzinfo=UTC)))
    assert [(page.score, page.number) for page in seen] == [(number / 1000, number + 1) for number in range(59, 0, -1)]
    assert list(client.review(job_id=unknown())) == []
    code, printed, _ = command("review", "--job", job_id, "--limit", "2", "--json")
    assert (code, [json.loads(line)["number"] for line in printed.splitlines()]) == (0, [60, 59])
    assert "page 60" in command("review", "--limit", "1")[1]
    assert "--tenant is not for --server" in command("review", "--tenant", "library")[2]


def test_what_is_done_to_a_job_is_done(api, client, tenant):
    job_id = UUID(str(api.rows.submitted(tenant=tenant, label="box-17")))
    assert client.pause(job_id).paused
    assert not client.resume(job_id).paused
    assert client.change(job_id, priority=7).priority == 7
    assert client.act_on_batch("box-17", "pause") == [job_id]
    assert client.change_batch("box-17", priority=8) == [job_id]
    assert client.cancel(job_id).cancelling
    with pytest.raises(TimeoutError):
        client.wait(job_id, within=timedelta(0))
    ended = UUID(str(api.ended(tenant=tenant)))
    assert client.wait(ended, within=timedelta(0)).id == ended
    assert client.retry(ended, all_pages=True).state == "submitted"
    client.delete(UUID(str(gone := api.ended(tenant=tenant))))
    with pytest.raises(ApiError) as refused:
        client.job(gone)
    assert (refused.value.status, refused.value.code) == (404, "not_found")


def test_nobody_there_is_an_error_of_its_own(monkeypatch):
    monkeypatch.setattr("pipeline.client._PATIENT", 0)
    with pytest.raises(ApiError) as refused:
        Client("http://127.0.0.1:9", "mun_0").job(unknown())
    assert (refused.value.status, refused.value.code) == (0, "unreachable")


class CutOff(Rule):
    """Cuts the connection whenever so many bytes more have gone up, a number of times."""

    def __init__(self, every, times):
        self.every, self.times, self.sent = every, times, 0
        self.lock = threading.Lock()

    def said(self, link, piece):
        with self.lock:
            self.sent += len(piece)
            is_time = self.times > 0 and self.sent >= self.every
            if is_time:
                self.times, self.sent = self.times - 1, 0
        if is_time:
            link.cut()
        else:
            super().said(link, piece)


class Stuck(Rule):
    """Passes nothing on once so many bytes have gone up."""

    def __init__(self, after):
        self.left, self.reached = after, threading.Event()

    def said(self, link, piece):
        self.left -= len(piece)
        if self.left < 0:
            self.reached.set()
            return
        super().said(link, piece)


@pytest.fixture
def far(api, tmp_path):
    """A bad link to the API."""
    with Proxy("127.0.0.1", api.ports["API__PORT"], folder=tmp_path) as proxy:
        yield proxy


def test_a_link_that_is_cut_again_and_again_loses_nothing(api, far, tenant, large):
    far.rule = CutOff(every=6_000_000, times=3)
    job = Client(f"http://{far.address}", api.key(tenant=tenant).token).submit(large)
    assert far.rule.times == 0
    assert api.stored(job.id) == LARGE


def test_a_command_that_was_killed_is_gone_on_with_where_it_was(api, far, museum, large):
    """kill -9 while the second part is on its way; the next one sends what is missing, and nothing else."""
    far.rule = Stuck(after=PART_BYTES + 1_000_000)
    submit = [sys.executable, "-m", "pipeline.cli", "submit", large, "--idempotency-key", "box-18"]
    environment = {**os.environ, "MUNIMENT_KEY": museum.token}
    killed = subprocess.Popen([*submit, "--server", f"http://{far.address}"], env=environment, cwd=ROOT)
    assert far.rule.reached.wait(60)
    eventually(lambda: parts(api, "box-18") == [1])
    killed.send_signal(signal.SIGKILL)
    killed.wait(10)
    far.rule = counted = CutOff(every=0, times=0)
    again = subprocess.run(
        [*submit, "--server", f"http://{far.address}"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert api.stored(again.stdout.strip()) == LARGE
    assert PART_BYTES < counted.sent < PART_BYTES + 100_000


def test_the_commands_do_through_the_api_what_they_do_beside_it(api, command, tenant, small, tmp_path):
    code, printed, _ = command("submit", small, "--label", "box-17", "--priority", "3", "--format", "text")
    assert code == 0
    job_id = printed.strip()
    assert json.loads(command("show", job_id, "--json")[1])["label"] == "box-17"
    assert "box-17" in command("show", job_id)[1]
    assert job_id in command("jobs", "--label", "box-17")[1]
    assert json.loads(command("jobs", "--json", "--limit", "1")[1])["id"] == job_id
    assert command("pause", job_id)[1] == f"{job_id}: paused\n"
    assert command("resume", "--label", "box-17")[1] == f"{job_id}: may go on\n"
    assert command("change", job_id, "--priority", "9", "--deadline", "2099-01-01")[1] == f"{job_id}: changed\n"
    assert command("cancel", job_id)[1] == f"{job_id}: to be cancelled\n"
    [row] = api.rows.sql("SELECT priority, deadline, cancel_requested FROM job WHERE id = :id", id=job_id)
    assert (row.priority, row.deadline.year, row.cancel_requested) == (9, 2099, True)
    ended = api.ended(tenant=tenant)
    assert command("result", ended)[1] == "what was read"
    assert command("result", ended, "--out", tmp_path / "out.txt") == (0, "", "")
    assert (tmp_path / "out.txt").read_text() == "what was read"
    assert command("retry", ended, "--all")[1] == f"{ended}: begun again\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["jobs", "--tenant", "library"], "--tenant is not for --server"),
        (["cancel", "--tenant", "library"], "--tenant is not for --server"),
        (["cancel"], "name jobs, or a --label"),
        (["jobs", "--server", "muniment.example"], "--server is a URL"),
        (["submit", "s3://archive/1.pdf", "--label", "a/b"], "label: String should match pattern"),
        (["submit", "s3://archive/1.pdf", "--engine", "A/B"], "options.engine: String should match pattern"),
    ],
)
def test_what_can_not_be_done_through_the_api_is_said(command, arguments, told):
    code, _, error = command(*arguments)
    assert code == 2
    assert told in error


def test_a_server_without_a_key_is_no_use(api):
    ended = CliRunner(env={"MUNIMENT_KEY": None}).invoke(cli, ["jobs", "--server", api.url])
    assert ended.exit_code == 2
    assert "MUNIMENT_KEY" in ended.stderr


def parts(api, key):
    found = api.rows.sql(
        "SELECT number FROM upload_part p JOIN upload u ON u.id = p.upload_id WHERE u.idempotency_key = :key", key=key
    )
    return [row.number for row in found]
