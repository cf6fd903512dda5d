"""What one admission, claim, record and finish cost over rows alone, from a thousand to a million that wait.

    .venv/bin/python benchmarks/backlog.py [--sizes 1000,10000,100000,1000000] [--plans]

For each size a database of its own is filled: half the rows are submitted jobs, half are planned ones with a ready
chunk, over ten tenants. Times are medians of rounds in one process; each size is set against the first. `--plans`
prints how Postgres runs every statement of a round at the largest size.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sqlalchemy import Engine, text

from pipeline.adapters.admissions import PostgresAdmissions
from pipeline.adapters.chunks import PostgresChunkMoves
from pipeline.adapters.database import connect, transaction
from pipeline.adapters.sweeps import PostgresSweeps
from pipeline.domain.document import Lane
from pipeline.domain.fairness import Window
from pipeline.ports.chunks import Measured
from pipeline.ports.dispatch import Patience
from tests.rows import entry
from tests.statements import plans, recorded

ROUNDS = 40
WINDOW = Window(least=4, most=4, ahead_ms=0)
NOW = timedelta(0)

# Triggers would write two million events first; they are off while the tables are filled, and on again for the rounds.
FILL = """
    SET LOCAL session_replication_role = replica;
    INSERT INTO tenant (name, queued_pages) SELECT 'tenant-' || n, :half / 10 FROM generate_series(0, 9) AS n;
    INSERT INTO job (tenant, source_uri, source_name) SELECT 'tenant-' || n % 10, 's3://archive/' || n, n::text
        FROM generate_series(1, :half) AS n;
    INSERT INTO job (tenant, source_uri, source_name, state, attempt, page_count, lane, chunks_total, chunks_remaining)
        SELECT 'tenant-' || n % 10, 's3://archive/' || n, n::text, 'running', 2, 1, 'cpu', 1, 1
        FROM generate_series(1, :half) AS n;
    INSERT INTO chunk (id, job_id, ordinal, first_page, last_page, lane, cost_ms)
        SELECT gen_random_uuid(), id, 0, 1, 1, 'cpu', 4000 FROM job WHERE state = 'running';
    INSERT INTO page (job_id, number, chunk_id, class) SELECT job_id, 1, id, 'scan' FROM chunk;
"""


def fill(engine: Engine, rows: int) -> None:
    """Write so many waiting rows, and let Postgres know what it has, as autovacuum does."""
    with transaction(engine) as connection:
        for statement in FILL.split(";"):
            if statement.strip():
                connection.execute(text(statement), {"half": rows // 2} if ":half" in statement else {})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


class Rounds:
    """Does what dispatchers and workers do with rows, and measures each kind of move."""

    def __init__(self, engine: Engine) -> None:
        self._admissions = PostgresAdmissions(engine)
        self._sweeps = PostgresSweeps(engine)
        self._chunks = PostgresChunkMoves(engine, owner="benchmark", lease=timedelta(minutes=1))
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def once(self) -> None:
        """Admit a window of steps and of chunks, and take the chunks to their end."""
        jobs = self._timed("admit 4 steps", lambda: self._admissions.take_jobs(WINDOW))
        self._admissions.unsent(jobs, [])
        chunks = self._timed("admit 4 chunks", lambda: self._admissions.take_chunks(Lane.CPU, WINDOW))
        self._timed("look for short jobs", lambda: self._admissions.take_express(Lane.CPU, WINDOW))
        self._timed("sweep", self._sweep)
        for due in chunks:
            claimed = self._timed("claim", lambda due=due: self._claim(due))  # type: ignore[misc]
            self._timed("record", lambda claimed=claimed: self._chunks.record(claimed.claim, [entry(1)]))  # type: ignore[misc]
            self._timed("finish", lambda claimed=claimed: self._chunks.finish(claimed.claim, Measured()))  # type: ignore[misc]

    def _claim(self, due: Any) -> Any:
        return self._chunks.claim(due.chunk_id, due.attempt, device_id="here/cpu:0")

    def _sweep(self) -> None:
        self._sweeps.expired_chunks()
        self._sweeps.reclaim_steps(10)
        self._sweeps.end_unwanted()
        self._sweeps.turn_hours()
        self._sweeps.recall_held()
        self._sweeps.audit(None, Patience(longest_job=timedelta(days=365), longest_wait=timedelta(days=30)))
        self._sweeps.unstarted_jobs(timedelta(minutes=1))
        self._sweeps.unstarted_chunks(Lane.CPU, timedelta(minutes=1))

    def _timed(self, name: str, move: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = move()
        self.seconds[name].append(time.perf_counter() - started)
        return result


def print_plans(engine: Engine, statements: dict[str, Any]) -> None:
    """Print how Postgres runs each statement, without running it."""
    for statement, plan in plans(engine, statements):
        print(f"\n```sql\n{' '.join(statement.split())}\n```\n\n```text\n{plan}\n```")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--plans", action="store_true")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="muniment-benchmark-"))
    os.environ |= {"MUNIMENT_HOME": str(home)}
    from pipeline.embedded.prepare import prepare_database
    from pipeline.embedded.serving import StackOptions
    from pipeline.embedded.stack import share

    handle = share(home, StackOptions(only_servers=True))
    first: dict[str, float] = {}
    try:
        for rows in map(int, options.sizes.split(",")):
            url = handle.state.settings["database"]["url"].rpartition("/")[0] + f"/backlog_{rows}"
            prepare_database(url)
            engine = connect(url, actor="benchmark")
            fill(engine, rows)
            rounds = Rounds(engine)
            for _ in range(ROUNDS):
                rounds.once()
            medians = {name: statistics.median(seconds) for name, seconds in rounds.seconds.items()}
            first = first or medians
            print(f"\n{rows:,} rows wait\n\n| move | ms | against the first |\n| --- | --- | --- |")
            for name, seconds in medians.items():
                print(f"| {name} | {seconds * 1000:.1f} | {seconds / first[name]:.2f} |")
            chunk = medians["admit 4 chunks"] / 4 + sum(medians[name] for name in ("claim", "record", "finish"))
            print(f"\none chunk through its rows: {chunk * 1000:.1f} ms", flush=True)
            if options.plans and rows == max(map(int, options.sizes.split(","))):
                with recorded(engine) as statements:
                    rounds.once()
                print_plans(engine, statements)
            engine.dispose()
    finally:
        handle.stop()


if __name__ == "__main__":
    main()
