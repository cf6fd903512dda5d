"""What the service costs: the same scanned pages through a bare engine loop and through everything, in one run.

    .venv/bin/python benchmarks/service.py

The bare loop is the engine alone in as many processes as there are slots: open, render, read, keep nothing. The service
is a fresh embedded stack: upload, rows, Celery, runners, segments, merge, export. Rounds alternate, because machines
drift; the ratio is of the medians. Then the peak memory of every process, and the time of single commands.
"""

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.commands.access import Access

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "samples" / "harbour-ledger.pdf"
sys.path.insert(0, str(ROOT))


def bare_loop(document: Path, engine_name: str, share: range, barrier: "multiprocessing.synchronize.Barrier") -> None:
    """Read a share of the pages; the time that counts begins once all processes are warm."""
    os.environ["OMP_NUM_THREADS"] = "1"
    from pipeline.adapters.documents.opener import FileOpener
    from pipeline.engines.registry import create
    from pipeline.settings import LimitSettings

    engine = create(engine_name, {})
    engine.warm_up()
    with FileOpener(LimitSettings().for_documents()).open(document) as opened:
        barrier.wait()
        for number in share:
            next(iter(engine.read([opened.render(number)])))
    barrier.wait()


def time_bare(document: Path, engine: str, pages: int, slots: int) -> float:
    """Return the seconds that the bare loop takes for all pages."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(slots + 1)
    processes = [
        context.Process(target=bare_loop, args=(document, engine, range(first, pages + 1, slots), barrier))
        for first in range(1, slots + 1)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    started = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - started
    for process in processes:
        process.join()
    return seconds


def wait_for(condition: Callable[[], bool], *, within: float) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"not so within {within} s: {condition}")
        time.sleep(0.05)


def time_service(document: Path, slots: int) -> float:
    """Return the seconds from handing the document in to its end, through a warm stack."""
    from pipeline.commands.access import open_access

    with open_access() as access:
        # A device says what it has loaded when it takes its first chunk.
        while warm_devices(access.engine) < slots:
            submit_and_wait(access, SAMPLE)
        started = time.perf_counter()
        submit_and_wait(access, document)
        return time.perf_counter() - started


def submit_and_wait(access: "Access", document: Path) -> None:
    """Hand a document in, twice if it is the sample, so that several slots get work, and wait for its end."""
    from pipeline.ports.submissions import Submission

    jobs = [
        access.submissions.insert(
            Submission(upload_key=access.upload(document), source_name=document.name, options={"reuse": False})
        )
        for _ in range(2 if document == SAMPLE else 1)
    ]
    wait_for(lambda: all(status.state.is_terminal for status in access.submissions.find(jobs)), within=3600)
    ended = {str(status.state) for status in access.submissions.find(jobs)}
    if ended != {"succeeded"}:
        sys.exit(f"{document.name} ended as {ended}")


def warm_devices(engine: object) -> int:
    """Count the devices whose engine is loaded."""
    from sqlalchemy import func, select

    from pipeline.adapters.database import transaction
    from pipeline.adapters.tables import Device

    with transaction(engine) as connection:  # type: ignore[arg-type]
        return int(connection.execute(select(func.count()).where(Device.engine.is_not(None))).scalar_one())


def peaks(root_pid: int) -> list[tuple[str, int]]:
    """Return the peak resident memory of a process and of all below it, by what they are."""
    import psutil

    found = []
    for process in [psutil.Process(root_pid), *psutil.Process(root_pid).children(recursive=True)]:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            line = " ".join(process.cmdline())
        except (psutil.Error, OSError):
            continue
        peak = next((int(row.split()[1]) * 1024 for row in status.splitlines() if row.startswith("VmHWM")), 0)
        found.append((kind_of(line), peak))
    return sorted(found, key=lambda item: -item[1])


def kind_of(command: str) -> str:
    """Return what a process of the stack is, by its command line."""
    kinds = {
        "workers.runner": "runner",
        "--device": "slot worker",
        "io,render": "io worker",
        "workers.dispatcher": "dispatcher",
        "workers.launcher": "launcher",
        "pipeline.embedded": "supervisor",
        "valkey": "valkey",
        "weed": "seaweedfs",
        "postgres": "postgres",
        "flower": "flower",
    }
    return next((kind for sign, kind in kinds.items() if sign in command), command[:40])


def timed_command(*command: str) -> float:
    """Return the seconds that a command takes."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return time.perf_counter() - started


def main() -> None:
    """Print the tables."""
    corpus = ROOT.parent / "shared" / "corpus" / "b_scan_report_30p.pdf"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", nargs="?", type=Path, default=corpus)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--engine", default="rapidocr")
    options = parser.parse_args()

    slots = len(os.sched_getaffinity(0))
    home = Path(tempfile.mkdtemp(prefix="muniment-benchmark-"))
    os.environ |= {"MUNIMENT_HOME": str(home), "MUNIMENT_DEVICES__ENGINE": options.engine}
    from pipeline.adapters.documents.opener import FileOpener
    from pipeline.embedded.stack import start_owned
    from pipeline.settings import LimitSettings

    with FileOpener(LimitSettings().for_documents()).open(options.document) as opened:
        pages = opened.page_count
    bare, service = [], []
    memory: list[tuple[str, int]] = []
    one_page: list[float] = []
    for _ in range(options.rounds):
        bare.append(time_bare(options.document, options.engine, pages, slots))
        handle = start_owned(home)
        try:
            service.append(time_service(options.document, slots))
            memory = peaks(handle.state.supervisor.pid)
            one_page.append(
                timed_command(
                    sys.executable, "-m", "pipeline.cli", "run", str(SAMPLE), "--no-reuse", "--out", str(home / "out")
                )
            )
        finally:
            handle.stop()

    print(f"{options.document.name}: {pages} pages, {slots} slots, engine {options.engine}, {options.rounds} rounds\n")
    print("| way | seconds | pages/s |\n| --- | --- | --- |")
    for name, seconds in (("bare loop", bare), ("service", service)):
        median = statistics.median(seconds)
        print(f"| {name} | {', '.join(f'{s:.1f}' for s in seconds)} | {pages / median:.3f} |")
    print(f"\nservice / bare loop: {statistics.median(bare) / statistics.median(service):.1%}\n")
    print("| process | peak RSS, MB |\n| --- | --- |")
    for kind, peak in memory:
        print(f"| {kind} | {peak / 1e6:.0f} |")
    print("\n| command | seconds |\n| --- | --- |")
    print(f"| run of a sample on a warm stack | {statistics.median(one_page):.2f} |")
    helps = [timed_command(sys.executable, "-m", "pipeline.cli", "--help") for _ in range(5)]
    print(f"| --help | {statistics.median(helps):.2f} |")


if __name__ == "__main__":
    main()
