"""A whole system of real processes over the test's own database, broker number and bucket."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psutil
from PIL import Image, ImageDraw

from pipeline.adapters.objects import S3Objects
from pipeline.domain import keys
from pipeline.domain.states import JobState
from pipeline.ports.submissions import Submission
from tests.rows import Rows
from tests.waiting import eventually
from workers.process import die_with_parent

ROOT = Path(__file__).resolve().parents[1]
QUICK = {
    "MUNIMENT_DEVICES__ENGINE": "simulated",
    "MUNIMENT_CHUNKS__MAX_PAGES": "5",
    "MUNIMENT_CHUNKS__FLUSH_PAGES": "2",
    "MUNIMENT_LEASES__CHUNK": "PT6S",
    "MUNIMENT_LEASES__STEP": "PT20S",
    "MUNIMENT_LEASES__DEVICE": "PT9S",
    "MUNIMENT_LEASES__STALL": "PT60S",
    "MUNIMENT_LEASES__RESEND": "PT30S",
    "MUNIMENT_DISPATCHER__SWEEP": "PT0.5S",
    "MUNIMENT_DISPATCHER__POLL": "PT0.5S",
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}


class System:
    """Starts processes, hands in documents and looks at what became of them."""

    def __init__(self, settings, environment, folder):
        self.settings = settings
        self.folder = folder
        self.environment = {**os.environ, **environment, **QUICK}
        self.environment["MUNIMENT_DEVICES__TEMPORARY_FOLDER"] = str(folder / "runners")
        self.rows = Rows(settings.database.url.get_secret_value(), owner="test")
        self.objects = S3Objects(settings.objects)
        self.processes = {}
        self._commands = {}
        self._open = ExitStack()

    # --- processes

    def simulate(self, **simulation):
        self.environment["MUNIMENT_SIMULATED"] = json.dumps(simulation)

    def simulate_gate(self, **simulation):
        """Let the engine's pages wait for a file, and return that: whoever touches it lets them go on."""
        gate = self.folder / "gate"
        self.simulate(gate=str(gate), **simulation)
        return gate

    def start(self, *, slots=1, dispatchers=1, io=1):
        for number in range(dispatchers):
            self.spawn_dispatcher(number)
        for number in range(io):
            self.spawn_io(number)
        for number in range(slots):
            self.spawn_slot(number)

    def spawn_dispatcher(self, number, **environment):
        return self.spawn(f"dispatcher{number}", "workers.dispatcher", **environment)

    def spawn_io(self, number, **environment):
        arguments = ("--queues", "io,render", "--name", f"io{number}")
        return self.spawn(f"io{number}", "workers.worker", *arguments, **environment)

    def spawn_slot(self, number, **environment):
        return self.spawn(f"cpu{number}", "workers.worker", "--device", f"cpu:{number}", **environment)

    def spawn(self, name, module, *arguments, prefix=(), **environment):
        """Start a process under this name, after a prefix; what else is told to it alone goes to its environment."""
        return self._start(name, [*prefix, sys.executable, "-m", module, *arguments], environment)

    def _start(self, name, command, environment):
        self._commands[name] = command, environment
        log = self._open.enter_context((self.folder / f"{name}.log").open("ab"))
        self.processes[name] = subprocess.Popen(
            command,
            env={**self.environment, **environment},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - tests fork from their main thread
        )
        return self.processes[name]

    def kill(self, name, sig=signal.SIGKILL):
        process = self.processes.pop(name)
        process.send_signal(sig)
        process.wait(60)
        return process

    def revive(self):
        """Start again, as a supervisor of services would, what has ended."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self.again(name)

    def again(self, name):
        """Start a process as it was started before."""
        return self._start(name, *self._commands[name])

    def child(self, name):
        """Return the process of a worker's pool, which runs its tasks."""
        return eventually(lambda: next(iter(psutil.Process(self.processes[name].pid).children()), None))

    def runner(self, name):
        """Return the process that holds a device worker's engine."""
        return eventually(lambda: next(iter(self.child(name).children()), None))

    def stop(self):
        """Kill everything: how workers stop in order is a matter of tests of their own."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        eventually(lambda: not self.runner_pids())
        self._open.close()
        self.rows.engine.dispose()

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def runner_pids(self):
        """Return the runners of this system's workers, from the kernel's list of processes."""
        parents = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, IndexError):
                command = (folder / "cmdline").read_bytes().split(b"\0")
                if b"workers.runner" in command and str(self.folder).encode() in b" ".join(command):
                    parents[int(folder.name)] = command
        return sorted(parents)

    # --- documents

    def submit(self, path, **more):
        key = keys.upload(os.urandom(8).hex())
        with path.open("rb") as file:
            self.objects.put(key, file, media_type="application/octet-stream")
        return self.rows.submissions.insert(Submission(upload_key=key, source_name=path.name, **more))

    def status(self, job_id):
        return self.rows.submissions.find([job_id])[0]

    def in_work(self, chunks=1):
        """Wait until devices have taken so many chunks."""
        running = "SELECT id FROM chunk WHERE state = 'running'"
        return eventually(lambda: len(found := self.rows.sql(running)) >= chunks and found, within=120)

    def attempts(self):
        """Return how each attempt at a chunk ended, in the order of their starts."""
        rows = self.rows.sql("SELECT outcome, error_code FROM chunk_attempt ORDER BY started_at")
        return [(row.outcome, row.error_code) for row in rows]

    def finished(self, job_id, *, within=120, supervised=False):
        def ended():
            if supervised:
                self.revive()
            status = self.status(job_id)
            return status if status.state.is_terminal else None

        return eventually(ended, within=within)

    def output(self, job_id, form):
        with self.objects.get(self.status(job_id).result_keys[form]) as pieces:
            return b"".join(pieces).decode()

    def document(self, job_id):
        return json.loads(self.output(job_id, "json"))

    def pages_done(self, job_id, at_least, *, within=120):
        eventually(lambda: self.status(job_id).pages_done >= at_least, within=within)

    # --- the closing question

    def assert_whole(self, job_id, pages):
        """Every page is there once, no row is stuck, and no device ever had two chunks at once."""
        status = self.status(job_id)
        assert status.state in (JobState.SUCCEEDED, JobState.PARTIAL), status
        ledger = list(self.rows.ledger.pages(job_id))
        assert [page.number for page in ledger] == list(range(1, pages + 1))
        assert all(page.outcome is not None for page in ledger)
        document = self.document(job_id)
        assert [page["number"] for page in document["pages"]] == list(range(1, pages + 1))
        read = [page for page in document["pages"] if page["outcome"] == "recognised"]
        assert [page["text"] for page in read] == [f"page {page['number']}" for page in read]
        stuck = self.rows.sql(
            "SELECT id, state FROM chunk WHERE job_id = :id AND state NOT IN ('done', 'split', 'dead')", id=job_id
        )
        assert stuck == []
        assert (
            self.rows.sql("SELECT count(*) FROM event WHERE job_id = :id AND kind = 'job.merging'", id=job_id)[0].count
            == 1
        )
        self.assert_no_overlap()

    def assert_no_overlap(self):
        # Of a lost attempt it is known when its lease ended, not when it did: its device may serve again before that.
        overlapping = self.rows.sql(
            "SELECT a.chunk_id, b.chunk_id FROM chunk_attempt a JOIN chunk_attempt b"
            " ON a.device_id = b.device_id AND (a.chunk_id, a.attempt) < (b.chunk_id, b.attempt)"
            " AND a.outcome IS DISTINCT FROM 'lost' AND b.outcome IS DISTINCT FROM 'lost'"
            " AND a.started_at < coalesce(b.ended_at, 'infinity') AND b.started_at < coalesce(a.ended_at, 'infinity')"
        )
        assert overlapping == []


def scan(folder, pages, *, name="scan.pdf", size=(400, 200)):
    """Write a PDF of that many image-only pages, each with some ink."""
    images = []
    for number in range(1, pages + 1):
        image = Image.new("L", size, 255)
        ImageDraw.Draw(image).text((20, 40), f"SCANNED PAGE {number}", fill=0, font_size=36)
        images.append(image)
    path = folder / name
    images[0].save(path, "PDF", save_all=True, append_images=images[1:], resolution=72)
    return path
