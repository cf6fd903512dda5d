"""What a large document costs the API: its memory and the rate, in one body and in parts, over a stack that is up.

    python -m benchmarks.uploads [--bytes 2147483647] [--cut-every 300000000]

In parts it goes by a link that is cut whenever so many bytes more have gone up; the process that sends is killed
half-way, and another goes on, which is told nothing but the idempotency key. What is sent is no document behind its
first bytes: its job is rejected, and then deleted. Memory is that of the API's process, twenty times a second.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psutil
import urllib3

from pipeline.client import Client
from pipeline.embedded.state import read_state
from pipeline.settings import default_home
from tests.faults.proxy import Link, Proxy, Rule

HEAD = b"%PDF-1.7\n"
MEBIBYTE = 1024**2


class CutOften(Rule):
    """Cuts a connection whenever so many bytes more have gone up."""

    def __init__(self, every: int, *, half: int) -> None:
        self.every, self.left, self.cuts = every, every, 0
        self.until_half, self.is_half = half, threading.Event()

    def said(self, link: Link, piece: bytes) -> None:
        """Count it."""
        self.left -= len(piece)
        self.until_half -= len(piece)
        if self.until_half < 0:
            self.is_half.set()
        if self.left < 0:
            self.left, self.cuts = self.every, self.cuts + 1
            link.cut()
        else:
            super().said(link, piece)


class Watch:
    """The memory of a process while it is entered."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._done = threading.Event()
        self.before = self.peak = process.memory_info().rss

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.05):
            self.peak = max(self.peak, self._process.memory_info().rss)


@contextmanager
def document(size_bytes: int) -> Iterator[Path]:
    with TemporaryDirectory(prefix="muniment-uploads-") as folder:
        path = Path(folder) / "large.pdf"
        with path.open("wb") as file:
            file.write(HEAD)
            file.truncate(size_bytes)
        yield path


def who_listens(port: int) -> psutil.Process:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in process.net_connections()):
                return process
    raise SystemExit(f"no process of ours listens on port {port}")


def in_one_body(url: str, key: str, path: Path) -> str:
    with path.open("rb") as file:
        headers = {"Authorization": f"Bearer {key}", "Content-Length": str(path.stat().st_size)}
        answer = urllib3.PoolManager(timeout=600).request("POST", f"{url}/v1/jobs", body=file, headers=headers)
    return str(answer.json()["id"])


def in_parts(url: str, key: str, path: Path, every: int) -> tuple[str, int]:
    """Return the job, and how often the link was cut; the process that began is killed half-way."""
    where = urlsplit(url)
    with TemporaryDirectory() as folder, Proxy(str(where.hostname), int(where.port or 80), folder=Path(folder)) as far:
        far.rule = rule = CutOften(every, half=path.stat().st_size // 2)
        submit = [sys.executable, "-m", "pipeline.cli", "submit", path, "--idempotency-key", f"large-{uuid4()}"]
        environment = {**os.environ, "MUNIMENT_SERVER": f"http://{far.address}", "MUNIMENT_KEY": key}
        first = subprocess.Popen(submit, env=environment, stderr=subprocess.DEVNULL)
        while not rule.is_half.wait(1):
            if first.poll() is not None:
                raise SystemExit(f"the first process ended with {first.returncode}")
        first.kill()
        first.wait()
        second = subprocess.run(submit, env=environment, stdout=subprocess.PIPE, check=True, text=True)
        return second.stdout.strip(), rule.cuts


def is_whole(client: Client, job_id: str, path: Path) -> bool:
    """Whether what arrived is what was sent, by the digest that the ingest made of it."""
    with path.open("rb") as file:
        sent = hashlib.file_digest(file, "sha256").hexdigest()
    return client.wait(UUID(job_id), within=timedelta(minutes=10)).sha256 == sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=2 * 1024**3 - 1)
    parser.add_argument("--cut-every", type=int, default=300_000_000)
    options = parser.parse_args()
    state = read_state(default_home())
    if state is None or state.api is None:
        raise SystemExit("no stack with an API runs here: start it with `muniment up`")
    url, key = state.api.url, state.api.key
    client, process = Client(url, key), who_listens(int(urlsplit(url).port or 80))
    with document(options.bytes) as path:
        for how in ("one body", "parts"):
            started = time.perf_counter()
            with Watch(process) as watch:
                cuts = 0
                if how == "parts":
                    job_id, cuts = in_parts(url, key, path, options.cut_every)
                else:
                    job_id = in_one_body(url, key, path)
            seconds = time.perf_counter() - started
            before, more = watch.before / MEBIBYTE, (watch.peak - watch.before) / MEBIBYTE
            whole = "whole" if is_whole(client, job_id, path) else "NOT WHOLE"
            rate = options.bytes / 1e6 / seconds
            print(
                f"{how:9} {rate:6.1f} MB/s, {cuts} cuts, API {before:.0f} MiB and {more:.0f} more at the peak, {whole}"
            )
            client.delete(UUID(job_id))


if __name__ == "__main__":
    main()
