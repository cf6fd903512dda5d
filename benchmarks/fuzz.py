"""Reads malformed files for as long as wanted, each in a process of its own: outcomes, deaths, time and memory.

    .venv/bin/python benchmarks/fuzz.py [--seconds 3600] [--seed 1000] [--processes 2] [--corpus DIR] [--keep DIR]

The files are those of `tests/adapters/documents/mutations.py`, made from small documents of each kind and, with
`--corpus`, from the files of a folder. File N is the same whenever it is asked for. Whatever kills its reader, takes
too long or ends without an error code is kept, and the exit code is 1.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline.domain.errors import ErrorCode
from pipeline.settings import LimitSettings
from tests.adapters.documents.mutations import found_seeds, made_seeds, mutated
from tests.adapters.documents.reading_child import Outcome, readers

TIMEOUT = timedelta(seconds=120)
MAX_MEMORY_BYTES = 4 * 1024**3
"""What the product gives a child that inspects."""
TYPED = {"ok", *ErrorCode}


@dataclass
class Tally:
    """What became of all files so far."""

    codes: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, 0)
    largest: tuple[int, int] = (0, 0)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, number: int, outcome: Outcome) -> None:
        """Count one more; safe to call from several threads."""
        with self.lock:
            self.codes[outcome.code] += 1
            self.slowest = max(self.slowest, (outcome.seconds, number))
            self.largest = max(self.largest, (outcome.peak_bytes, number))


def read(numbers: Iterator[int], seeds: Sequence[bytes], until: float, keep: Path, tally: Tally) -> None:
    limits = LimitSettings().for_documents()
    with (
        tempfile.TemporaryDirectory() as folder,
        readers(limits, timeout=TIMEOUT, max_memory_bytes=MAX_MEMORY_BYTES) as reading,
    ):
        path = Path(folder) / "document"
        while time.monotonic() < until:
            number = next(numbers)
            content = mutated(seeds, number)
            path.write_bytes(content)
            outcome = reading.read(path)
            tally.add(number, outcome)
            if outcome.code not in TYPED:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{outcome.code}-{number}").write_bytes(content)
                print(f"file {number}: {outcome.code} {outcome.detail}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1000, help="number of the first file")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--corpus", type=Path, help="a folder of documents to start from")
    parser.add_argument("--keep", type=Path, default=Path("fuzz"), help="where what is found is kept")
    options = parser.parse_args()
    seeds = made_seeds() + (found_seeds(options.corpus) if options.corpus else [])
    tally, begun = Tally(), time.monotonic()
    arguments = (count(options.seed), seeds, begun + options.seconds, options.keep, tally)
    threads = [threading.Thread(target=read, args=arguments) for _ in range(options.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = sum(tally.codes.values())
    print(f"{files} files from {len(seeds)} seeds, numbers from {options.seed}, {time.monotonic() - begun:.0f} s")
    print("\n| outcome | files |\n| --- | --- |")
    for code, number in tally.codes.most_common():
        print(f"| `{code}` | {number} |")
    print(f"\nslowest {tally.slowest[0]:.1f} s (file {tally.slowest[1]}),", end=" ")
    print(f"largest {tally.largest[0] / 1024**2:.0f} MiB (file {tally.largest[1]})")
    return 0 if tally.codes.keys() <= TYPED else 1


if __name__ == "__main__":
    sys.exit(main())
