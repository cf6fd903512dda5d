"""`soak`: whether an engine's memory or time grows from chunk to chunk."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pipeline.commands.reading import Reading
    from pipeline.domain.measuring import Trend

EXIT_GROWS = 7
_LEFT_OUT = 0.1
"""Of the chunks, the first: allocators and caches get to their sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One chunk that was read."""

    seconds: float
    held_bytes: int
    """Afterwards, when what could be given back was: of an accelerator if there is one, else of the host."""
    peak_bytes: int


@click.command("soak")
@click.option("--engine", help="Default: that of the settings.")
@click.option("--document", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--chunks", type=click.IntRange(5), default=50, show_default=True, help="How many are read.")
@click.option("--pages", type=click.IntRange(1), default=4, show_default=True, help="Of each; the document in turn.")
@click.option("--tolerate", type=click.IntRange(0), default=0, show_default=True, help="Bytes of growth a chunk.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw memory and time into this PNG.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a chunk, then one with both trends.")
def soak_command(
    *, engine: str | None, document: Path, chunks: int, pages: int, tolerate: int, plot: Path | None, as_json: bool
) -> None:
    """Read chunk after chunk in this process, and tell whether memory or time grows.

    Says by how much both rise from one chunk to the next, with the 95 % confidence interval, the first tenth left out.
    Exit code: 0 if memory is not shown to grow by more than is tolerated, 7 if it is.
    """
    from pipeline.commands.reading import open_reading
    from pipeline.domain.measuring import trend

    if plot:
        _need_matplotlib()
    with open_reading(engine, document) as reading:
        numbers = cycle(range(1, reading.document.page_count + 1))
        read = [_read(reading, list(islice(numbers, pages)), as_json=as_json) for _ in range(chunks)]
    counted = read[max(1, round(_LEFT_OUT * chunks)) :]
    memory, duration = trend([one.held_bytes for one in counted]), trend([one.seconds for one in counted])
    if plot:
        _draw(plot, read, len(read) - len(counted), memory)
    click.echo(_as_json(memory, duration) if as_json else _as_text(read, memory, duration))
    sys.exit(EXIT_GROWS if memory.low > tolerate else 0)


def _read(reading: "Reading", numbers: Sequence[int], *, as_json: bool) -> Chunk:
    from pipeline.adapters.resident_memory import give_back_memory

    reading.gauge.reset()
    started = time.monotonic()
    for _ in reading.read(numbers):
        pass
    seconds = time.monotonic() - started
    peak_bytes = reading.gauge.read().peak_bytes
    give_back_memory()
    reading.gauge.give_back()
    chunk = Chunk(seconds=round(seconds, 4), held_bytes=reading.gauge.read().held_bytes, peak_bytes=peak_bytes)
    if as_json:
        click.echo(json.dumps(asdict(chunk)))
    return chunk


def _as_json(memory: "Trend", duration: "Trend") -> str:
    return json.dumps({"bytes_per_chunk": asdict(memory), "seconds_per_chunk": asdict(duration)})


def _as_text(read: Sequence[Chunk], memory: "Trend", duration: "Trend") -> str:
    held = [one.held_bytes for one in read]
    return "\n".join(
        (
            f"chunks  {len(read)}, {sum(one.seconds for one in read):.1f} s",
            f"memory  from {held[0] / 2**20:.1f} to {held[-1] / 2**20:.1f} MiB, "
            f"peak {max(one.peak_bytes for one in read) / 2**20:.1f} MiB",
            f"        {_said(memory, 2**10, 'KiB')}: {'it grows' if memory.is_growth else 'not shown to grow'}",
            f"time    {_said(duration, 1e-3, 'ms')}: {'it grows' if duration.is_growth else 'not shown to grow'}",
        )
    )


def _said(found: "Trend", unit: float, name: str) -> str:
    return f"{found.slope / unit:+.2f} {name} a chunk ({found.low / unit:+.2f} to {found.high / unit:+.2f})"


def _need_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs matplotlib: pip install 'muniment[plot]'")


def _draw(path: Path, read: Sequence[Chunk], left_out: int, memory: "Trend") -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    numbers = range(1, len(read) + 1)
    above.plot(numbers, [one.peak_bytes / 2**20 for one in read], color="0.7", label="peak")
    above.plot(numbers, [one.held_bytes / 2**20 for one in read], label="held afterwards")
    above.axvspan(0.5, left_out + 0.5, color="0.93", label="left out of the trend")
    above.set(ylabel="MiB", title=f"{_said(memory, 2**10, 'KiB')}")
    above.legend(loc="best")
    below.plot(numbers, [one.seconds for one in read])
    below.set(ylabel="seconds", xlabel="chunk", ylim=(0, None))
    figure.savefig(path, format="png", dpi=120)
