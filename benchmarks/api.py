"""How fast status is told while many poll and follow events, and what that costs the jobs; over a stack that is up.

    python -m benchmarks.api [--clients 200] [--streams 50] [--jobs 4] [--rounds 2] [--file samples/harbour-ledger.pdf]

It hands the file in some times over and waits for all, in rounds of three kinds by turns: with nobody who watches; with
clients that each ask for one of these jobs once a second and streams that follow the last; and with nobody again, but
beside a program that has nothing to do with this one and computes for as long as watching took of the machine. It
prints the times from a request to its whole answer, and the pages a second of each kind of round: what the last two
have in common is what the machine takes for being shared. Clients share the machine with what they measure: leave them
a core that no device has (MUNIMENT_DEVICES__CPU_SLOTS), and let their key ask often enough
(MUNIMENT_API__REQUESTS_PER_MINUTE).
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.api.schemas import JobFields, Options
from pipeline.client import Client
from pipeline.embedded.state import read_state
from pipeline.settings import default_home

_BETWEEN_QUESTIONS_S = 1.0
_COMPUTE = """
import sys, time
share, tick = float(sys.argv[1]), 0.005
while True:
    until = time.process_time() + share * tick
    while time.process_time() < until:
        pass
    time.sleep((1 - share) * tick)
"""
READ_ANEW = JobFields(options=Options(reuse=False))


@dataclass
class Round:
    """What was seen while some jobs ran."""

    seconds: float = 0.0
    pages: int = 0
    cores: float = 0.0
    """Of the machine that were busy, with anything."""
    times: list[float] = field(default_factory=list)
    """From requests to their whole answers, seconds."""
    pieces: int = 0
    """Of event streams."""


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2, help="of either kind")
    parser.add_argument("--file", type=Path, default=Path("samples/harbour-ledger.pdf"))
    parser.add_argument("--url", help="Of another API than the one of the stack that is up here; with --key.")
    parser.add_argument("--key")
    return parser.parse_args()


async def ask(host, port, request):
    """Ask again and again on one connection, whenever the caller comes back; yield what each answer took, seconds."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        while True:
            begun = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.partition(b"\r\n")[0]:
                raise RuntimeError(head.partition(b"\r\n")[0].decode())
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            yield time.perf_counter() - begun
    finally:
        writer.close()


async def poll(where, request, seen, *, after):
    await asyncio.sleep(after)
    async for seconds in ask(*where, request):
        seen.times.append(seconds)
        await asyncio.sleep(max(0.0, _BETWEEN_QUESTIONS_S - seconds))


async def follow(where, request, seen):
    reader, writer = await asyncio.open_connection(*where)
    writer.write(request)
    try:
        while await reader.read(65536):
            seen.pieces += 1
    finally:
        writer.close()


async def watch(arguments, client, jobs, seen):
    """Have all clients and streams at it until the jobs have ended."""
    address = urlsplit(arguments.url)
    where = (address.hostname, address.port)
    headers = f"Host: {address.netloc}\r\nAuthorization: Bearer {arguments.key}"

    def request(path):
        return f"GET {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode()

    statuses, events = [request(f"/v1/jobs/{job}") for job in jobs], request(f"/v1/jobs/{jobs[-1]}/events")
    watchers = [
        asyncio.create_task(poll(where, status, seen, after=number * _BETWEEN_QUESTIONS_S / arguments.clients))
        for number, status in zip(range(arguments.clients), itertools.cycle(statuses), strict=False)
    ]
    watchers += [asyncio.create_task(follow(where, events, seen)) for _ in range(arguments.streams)]
    await asyncio.to_thread(wait, client, jobs)
    for watcher in watchers:
        watcher.cancel()
    for ended in await asyncio.gather(*watchers, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


def wait(client, jobs):
    for job in jobs:
        client.wait(job, within=timedelta(hours=1), every=timedelta(seconds=0.2))


def busy_s():
    """How long the machine's cores have computed by now, all together."""
    user, nice, system = (int(ticks) for ticks in Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def beside(share):
    """Compute for this share of a core in the meantime."""
    computing = subprocess.Popen([sys.executable, "-c", _COMPUTE, str(min(1.0, share))])
    try:
        yield
    finally:
        computing.kill()
        computing.wait()


def run_round(arguments, client, *, watched=False):
    seen, begun, busy = Round(), time.perf_counter(), busy_s()
    jobs = [client.submit(arguments.file, READ_ANEW).id for _ in range(arguments.jobs)]
    if watched:
        asyncio.run(watch(arguments, client, jobs, seen))
    else:
        wait(client, jobs)
    seen.seconds = time.perf_counter() - begun
    seen.cores = (busy_s() - busy) / seen.seconds
    seen.pages = sum(client.job(job).pages.done for job in jobs)
    return seen


def main():
    arguments = parsed()
    state = None if arguments.url else read_state(default_home())
    if not arguments.url and (state is None or state.api is None):
        raise SystemExit("no stack with an API runs here: start it with `muniment up`, or give --url and --key")
    if state:
        arguments.url, arguments.key = state.api.url, state.api.key
    client = Client(arguments.url, arguments.key)
    run_round(arguments, client)  # Engines load at their first page.
    alone, watched, shared = [], [], []
    for _ in range(arguments.rounds):
        alone.append(run_round(arguments, client))
        watched.append(run_round(arguments, client, watched=True))
        with beside(mean(watched, "cores") - mean(alone, "cores")):
            shared.append(run_round(arguments, client))
    report(arguments, alone, watched, shared)


def mean(rounds, name):
    return statistics.fmean(getattr(seen, name) for seen in rounds)


def pages_a_second(rounds):
    return sum(seen.pages for seen in rounds) / sum(seen.seconds for seen in rounds)


def report(arguments, alone, watched, shared):
    times = [1000 * seconds for seen in watched for seconds in seen.times]
    cuts = statistics.quantiles(times, n=100)
    print(f"clients  {arguments.clients} polling once a second, {arguments.streams} following events")
    print(f"answers  {len(times)} in {sum(seen.seconds for seen in watched):.0f} s")
    print(f"events   {sum(seen.pieces for seen in watched)} pieces")
    print(f"status   p50 {cuts[49]:.1f} ms, p95 {cuts[94]:.1f} ms, p99 {cuts[98]:.1f} ms, most {max(times):.1f} ms")
    for name, rounds in (("alone", alone), ("watched", watched), ("beside a program that computes", shared)):
        speed, cores = pages_a_second(rounds), mean(rounds, "cores")
        print(f"pages/s  {speed:.2f} {name}: {100 * speed / pages_a_second(alone):.0f} %; {cores:.2f} cores busy")


if __name__ == "__main__":
    main()
