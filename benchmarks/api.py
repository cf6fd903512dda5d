"""How fast status is told while many poll and follow events, over a stack that is up, whatever else it does meanwhile.

    python -m benchmarks.api [--clients 200] [--streams 50] [--seconds 30] [--file samples/harbour-ledger.pdf]

It hands the file in, has every client ask for that job once a second and every stream follow it, and prints the times
from a request to its whole answer. Clients share the machine with what they measure.
"""

import argparse
import asyncio
import json
import statistics
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.embedded.state import read_state
from pipeline.settings import default_home


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
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


async def poll(host, port, request, *, after, until, times):
    await asyncio.sleep(after)
    async for seconds in ask(host, port, request):
        times.append(seconds)
        pause = max(0.0, 1 - seconds)
        if time.perf_counter() + pause > until:
            return
        await asyncio.sleep(pause)


async def follow(host, port, request, *, until, pieces):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    try:
        async with asyncio.timeout(until - time.perf_counter()):
            while piece := await reader.read(65536):
                pieces.append(len(piece))
    except TimeoutError:
        pass
    finally:
        writer.close()


async def measure(arguments, url, key, job_id):
    address = urlsplit(url)

    def request(path):
        return f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {key}\r\n\r\n".encode()

    until, times, pieces = time.perf_counter() + arguments.seconds, [], []
    where = (address.hostname, address.port)
    async with asyncio.TaskGroup() as group:
        for number in range(arguments.clients):
            after = number / arguments.clients
            group.create_task(poll(*where, request(f"/v1/jobs/{job_id}"), after=after, until=until, times=times))
        for _ in range(arguments.streams):
            group.create_task(follow(*where, request(f"/v1/jobs/{job_id}/events"), until=until, pieces=pieces))
    return times, pieces


def main():
    arguments = parsed()
    state = None if arguments.url else read_state(default_home())
    if not arguments.url and (state is None or state.api is None):
        raise SystemExit("no stack with an API runs here: start it with `muniment up`, or give --url and --key")
    url, key = (arguments.url, arguments.key) if arguments.url else (state.api.url, state.api.key)
    headers = {"Authorization": f"Bearer {key}"}
    submission = urllib.request.Request(f"{url}/v1/jobs", data=arguments.file.read_bytes(), headers=headers)
    with urllib.request.urlopen(submission) as answer:
        job_id = json.load(answer)["id"]
    times, pieces = asyncio.run(measure(arguments, url, key, job_id))
    cuts = [1000 * cut for cut in statistics.quantiles(times, n=100)]
    print(f"clients  {arguments.clients} polling once a second, {arguments.streams} following events")
    print(f"answers  {len(times)} in {arguments.seconds:.0f} s, {len(pieces)} pieces of events")
    print(
        f"status   p50 {cuts[49]:.1f} ms, p95 {cuts[94]:.1f} ms, p99 {cuts[98]:.1f} ms, most {1000 * max(times):.1f} ms"
    )


if __name__ == "__main__":
    main()
