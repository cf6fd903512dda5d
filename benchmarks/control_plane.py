"""What everything around recognition costs: a whole stack of real processes, with an engine that reads nothing.

    .venv/bin/python benchmarks/control_plane.py [--chunks 1000] [--soak 10000]

- throughput: one-page chunks a second through admit, claim, flush, finish and merge, and what each kind of process
  computes for one; the time from a job's row to the first claim of a chunk in an idle system; what Postgres and the
  broker grow by
- fairness: the time of ten pages of one tenant, alone and behind a thousand pages of another
- soak: resident memory of every process over many chunks, as a slope, with connections and files before and after
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.service import kind_of, wait_for  # noqa: E402 - the script's own folder comes first otherwise
from tests.system import scan  # noqa: E402

if TYPE_CHECKING:
    from pipeline.commands.access import Access
    from pipeline.domain.document import JobId
    from pipeline.embedded.stack import StackHandle

Measure = TypeVar("Measure", int, float)
PAGES = 50
ENVIRONMENT = {
    "MUNIMENT_DEVICES__ENGINE": "simulated",
    "MUNIMENT_CHUNKS__MAX_PAGES": "1",
    # So that the estimate is what such a page takes; the windows go by it.
    "MUNIMENT_CHUNKS__PAGE_MS": "40",
    "MUNIMENT_LOG__LEVEL": "WARNING",
}


def small_scan(folder: Path, pages: int) -> Path:
    """Write a PDF of pages that take hardly any time to render."""
    return scan(folder, pages, name=f"scan-{pages}.pdf", size=(120, 60))


@contextmanager
def stack(home: Path, **environment: str) -> Iterator["tuple[StackHandle, Access]"]:
    """Run a stack with the engine that reads nothing."""
    os.environ |= {"MUNIMENT_HOME": str(home), **ENVIRONMENT, **environment}
    from pipeline.commands.access import open_access
    from pipeline.embedded.stack import start_owned

    handle = start_owned(home)
    try:
        with open_access() as access:
            yield handle, access
    finally:
        handle.stop()


class Submitter:
    """Hands one document in again and again."""

    def __init__(self, access: "Access", document: Path) -> None:
        self._access = access
        self._document = document

    def __call__(self, tenant: str = "default") -> "JobId":
        """Submit it, and return the job's id."""
        from pipeline.ports.submissions import Submission

        key = self._access.upload(self._document)
        return self._access.submissions.insert(
            Submission(upload_key=key, source_name=self._document.name, tenant=tenant)
        )


def ended(access: "Access", jobs: "list[JobId]") -> Callable[[], bool]:
    """Return whether all of them have."""
    return lambda: all(status.state.is_terminal for status in access.submissions.find(jobs))


def begun(access: "Access", job: "JobId") -> Callable[[], bool]:
    """Return whether the job has got going."""
    return lambda: access.submissions.find([job])[0].pages_done > 2 * PAGES


def sql(access: "Access", statement: str) -> Any:
    """Return the rows of a statement."""
    from sqlalchemy import text

    from pipeline.adapters.database import transaction

    with transaction(access.engine) as connection:
        return connection.execute(text(statement)).all()


def sizes(access: "Access") -> tuple[int, int]:
    """Return what Postgres and the broker hold, bytes."""
    import redis

    url = access.settings.broker.url
    assert url
    with redis.Redis.from_url(url.get_secret_value()) as broker:
        used: int = broker.info("memory")["used_memory"]
    return sql(access, "SELECT pg_database_size(current_database())")[0][0], used


def throughput(folder: Path, chunks: int) -> None:
    """Print how fast chunks go through, and what they leave behind."""
    jobs_wanted = max(1, chunks // PAGES)
    with stack(folder / "throughput") as (handle, access):
        root_pid = handle.state.supervisor.pid
        submit = Submitter(access, small_scan(folder, PAGES))
        wait_for(ended(access, [submit(), submit()]), within=300)
        single = Submitter(access, small_scan(folder, 1))
        for _ in range(20):
            wait_for(ended(access, [single()]), within=60)
        waits = sql(
            access,
            """
            SELECT extract(epoch FROM claimed.at - submitted.at) FROM event AS submitted
            JOIN event AS claimed ON claimed.job_id = submitted.job_id AND claimed.kind = 'chunk.running'
            JOIN job ON job.id = submitted.job_id AND job.page_count = 1
            WHERE submitted.kind = 'job.submitted' ORDER BY 1
        """,
        )
        before, spent_before = sizes(access), cpu_seconds(root_pid)
        started = time.perf_counter()
        jobs = [submit() for _ in range(jobs_wanted)]
        wait_for(ended(access, jobs), within=3600)
        seconds = time.perf_counter() - started
        recognising = sql(
            access,
            """
            SELECT extract(epoch FROM max(ended_at) - min(started_at)), count(*) FROM chunk_attempt
            WHERE started_at > (SELECT max(created_at) FROM job) - interval '1 hour'
        """,
        )
        after, spent = sizes(access), cpu_seconds(root_pid)
    waits = [float(row[0]) for row in waits]
    per_thousand = [(now - then) / jobs_wanted * 1000 for then, now in zip(before, after, strict=True)]
    print("| what | value |\n| --- | --- |")
    print(
        f"| chunks a second, {jobs_wanted} documents of {PAGES}, submit to end | {jobs_wanted * PAGES / seconds:.0f} |"
    )
    print(f"| attempts in all | {recognising[0][1]} |")
    print(f"| row to first claim, idle, P50 | {statistics.median(waits) * 1000:.0f} ms |")
    print(f"| the same, P95 | {waits[int(len(waits) * 0.95)] * 1000:.0f} ms |")
    print(f"| Postgres grows by, per 1,000 documents of {PAGES} chunks | {per_thousand[0] / 1e6:.0f} MB |")
    print(f"| the broker grows by, per 1,000 documents | {per_thousand[1] / 1e6:.1f} MB |")
    print("\n| process | ms of CPU a chunk |\n| --- | --- |")
    kinds: Counter[str] = Counter()
    for pid, (kind, seconds) in spent.items():
        kinds[kind] += (seconds - spent_before.get(pid, (kind, 0.0))[1]) / (jobs_wanted * PAGES) * 1000
    for kind, milliseconds in kinds.most_common():
        print(f"| {kind} | {milliseconds:.1f} |")
    print(f"| all | {kinds.total():.1f} |", flush=True)


def fairness(folder: Path) -> None:
    """Print what a thousand pages of one tenant cost another one's ten."""
    # Pages so small are estimated at a few milliseconds: the thousand are a long job all the same, the ten a short one.
    simulated = {
        "MUNIMENT_SIMULATED": '{"page_ms": 40}',
        "MUNIMENT_CHUNKS__MAX_PAGES": "5",
        "MUNIMENT_CHUNKS__SHORT_JOB": "PT1S",
    }
    with stack(folder / "fairness", **simulated) as (_, access):
        few, many = Submitter(access, small_scan(folder, 10)), Submitter(access, small_scan(folder, 1000))
        wait_for(ended(access, [few("few")]), within=60)
        times = []
        for behind in (False, True):
            if behind:
                wait_for(begun(access, many("many")), within=120)
            started = time.perf_counter()
            wait_for(ended(access, [few("few")]), within=300)
            times.append(time.perf_counter() - started)
    alone, crowded = times
    print(f"\n| ten pages | seconds |\n| --- | --- |\n| alone | {alone:.2f} |\n| behind a thousand | {crowded:.2f} |")
    print(f"\nbehind / alone: {crowded / alone:.2f}", flush=True)


def soak(folder: Path, chunks: int) -> None:
    """Print by how much each process grows, and what is left open or behind."""
    with stack(folder / "soak") as (handle, access):
        submit = Submitter(access, small_scan(folder, PAGES))
        wait_for(ended(access, [submit() for _ in range(20)]), within=600)
        before = look(handle.state.supervisor.pid, access)
        samples: dict[int, list[tuple[int, int]]] = {}
        done, jobs = 0, []
        while done < chunks:
            jobs = [submit() for _ in range(10)]
            wait_for(ended(access, jobs), within=600)
            done += 10 * PAGES
            for pid, (_, rss) in memory(handle.state.supervisor.pid).items():
                samples.setdefault(pid, []).append((done, rss))
        after = look(handle.state.supervisor.pid, access)
        kinds = memory(handle.state.supervisor.pid)
    print(f"\n{done} chunks\n\n| process | first, MB | last, MB | MB per 1,000 chunks |\n| --- | --- | --- | --- |")
    for pid, points in samples.items():
        if len(points) > 2 and pid in kinds:
            slope = statistics.linear_regression(*zip(*points, strict=True)).slope
            print(
                f"| {kinds[pid][0]} | {points[0][1] / 1e6:.0f} | {points[-1][1] / 1e6:.0f} | {slope * 1000 / 1e6:.2f} |"
            )
    print("\n| what | before | after |\n| --- | --- | --- |")
    for name in before:
        print(f"| {name} | {before[name]} | {after[name]} |")


def of_each(root_pid: int, measure: Callable[[psutil.Process], Measure]) -> dict[int, tuple[str, Measure]]:
    """Return the kind of every process of the stack, and a measure of it."""
    found = {}
    for process in [psutil.Process(root_pid), *psutil.Process(root_pid).children(recursive=True)]:
        try:
            found[process.pid] = (kind_of(" ".join(process.cmdline())), measure(process))
        except psutil.Error:
            continue
    return found


def cpu_seconds(root_pid: int) -> dict[int, tuple[str, float]]:
    """Return what each process has computed so far."""
    return of_each(root_pid, lambda process: sum(process.cpu_times()[:2]))


def memory(root_pid: int) -> dict[int, tuple[str, int]]:
    """Return the resident bytes of each process that are its own: Postgres' backends share the buffers they touched."""
    return of_each(root_pid, lambda process: process.memory_info().rss - process.memory_info().shared)


def look(root_pid: int, access: "Access") -> dict[str, int]:
    """Return what must not grow: connections, open files, temporary files."""
    import redis

    url = access.settings.broker.url
    assert url
    with redis.Redis.from_url(url.get_secret_value()) as broker:
        clients = len(broker.client_list())
    processes = [psutil.Process(root_pid), *psutil.Process(root_pid).children(recursive=True)]
    temporary = [path for path in Path(tempfile.gettempdir()).glob("muniment-*") if path.is_dir()]
    return {
        "connections to Postgres": sql(access, "SELECT count(*) FROM pg_stat_activity WHERE client_port IS NOT NULL")[
            0
        ][0],
        "connections to the broker": clients,
        "open files of our processes": sum(process.num_fds() for process in processes if process.is_running()),
        "temporary files": sum(len(list(path.rglob("*"))) for path in temporary),
    }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1000)
    parser.add_argument("--soak", type=int, default=0, help="Chunks of the soak; 0 leaves it out.")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="benchmark-"))
    throughput(folder, options.chunks)
    fairness(folder)
    if options.soak:
        soak(folder, options.soak)


if __name__ == "__main__":
    main()
