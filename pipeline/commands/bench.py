"""`bench`: what an engine takes of time and memory on this machine, over a document of yours."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pipeline.commands.reading import Reading
    from pipeline.domain.recognition import PageResult
    from pipeline.ports.baselines import Baseline

_A4_PIXELS = 1654 * 2339
"""At 200 dpi, which planning counts in."""


@click.command("bench")
@click.option("--engine", help="Default: that of the settings.")
@click.option("--document", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="How often it is read.")
@click.option("--baseline", type=click.Path(dir_okay=False, path_type=Path), help="Write the baseline to this file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def bench_command(*, engine: str | None, document: Path, repeat: int, baseline: Path | None, as_json: bool) -> None:
    """Measure an engine: seconds a page, pages and tokens a second, memory when warm and at most.

    Reads the document in this process, without a stack, as a runner would, once for warmth and then as often as asked.
    The file that --baseline writes may be named in `chunks.baselines`; planning then counts with it.
    """
    from pipeline.adapters.baselines import write_baseline
    from pipeline.commands.reading import open_reading

    with open_reading(engine, document) as reading:
        measured = _measured(reading, repeat)
    if baseline:
        write_baseline(baseline, measured)
    click.echo(json.dumps(asdict(measured)) if as_json else _as_text(measured))


def _measured(reading: "Reading", repeat: int) -> "Baseline":
    import time

    from pipeline.adapters.resident_memory import give_back_memory
    from pipeline.domain.measuring import percentile
    from pipeline.ports.baselines import Baseline

    numbers = range(1, reading.document.page_count + 1)
    _seen(list(reading.read(numbers)))  # not counted: allocators and caches get to their sizes
    reading.gauge.reset()
    started = time.monotonic()
    reader = reading.reader()
    pages = _seen([page for _ in range(repeat) for page in reading.read(numbers, reader=reader)])
    seconds = time.monotonic() - started
    peak = reading.gauge.read()
    give_back_memory()
    reading.gauge.give_back()
    page_ms = [page.provenance.elapsed_ms for page in pages]
    pixels = sum(page.width_px * page.height_px for page in pages)
    identity = reading.engine.identity
    return Baseline(
        engine=identity.name,
        revision=identity.revision,
        settings_digest=identity.settings_digest,
        device=reading.device,
        document_sha256=reading.sha256,
        pages=len(pages),
        warm_up_s=round(reading.warm_up_s, 2),
        pages_per_s=round(len(pages) / seconds, 3),
        tokens_per_s=round(reader.tokens / seconds, 1) if reader.tokens else None,
        page_ms_p50=percentile(page_ms, 0.5),
        page_ms_p95=percentile(page_ms, 0.95),
        page_ms_p99=percentile(page_ms, 0.99),
        a4_page_ms=max(1, round(sum(page_ms) * _A4_PIXELS / pixels)),
        baseline_bytes=reading.warm.held_bytes,
        peak_bytes=peak.peak_bytes,
        after_bytes=reading.gauge.read().held_bytes,
        reserved_bytes=peak.reserved_bytes,
    )


def _seen(pages: list["PageResult"]) -> list["PageResult"]:
    """Return the pages that the engine read. Raises: ClickException, if there is none."""
    from pipeline.domain.recognition import PageOutcome

    seen = [page for page in pages if page.outcome is PageOutcome.RECOGNISED]
    if not seen:
        raise click.ClickException("there is no page in it that an engine reads: blank, failed, or text by itself")
    return seen


def _as_text(measured: "Baseline") -> str:
    times = (measured.page_ms_p50, measured.page_ms_p95, measured.page_ms_p99)
    memory = (measured.baseline_bytes, measured.peak_bytes, measured.after_bytes)
    rows = {
        "engine": f"{measured.engine} {measured.revision} on {measured.device}",
        "warm after": f"{measured.warm_up_s:.1f} s",
        "pages": f"{measured.pages}, {measured.pages_per_s:.3f} a second",
        "ms a page": "P50 {:.0f}, P95 {:.0f}, P99 {:.0f}".format(*times),
        "ms for A4": f"{measured.a4_page_ms} at 200 dpi",
        "memory": "warm {}, peak {}, after {}".format(*map(_mib, memory)),
    }
    if measured.tokens_per_s is not None:
        rows["tokens"] = f"{measured.tokens_per_s:.1f} a second"
    return "\n".join(f"{name:11} {text}" for name, text in rows.items())


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"
