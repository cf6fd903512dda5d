"""`chaos`: a drill that breaks a stack of its own on this machine, to see that nothing is lost."""

import json
import sys
import tempfile
from pathlib import Path

import click

from pipeline.chaos.schedule import FaultKind, Schedule, draw
from pipeline.commands.interruption import EXIT_INTERRUPTED, interruptible

EXIT_NOT_CLEAN = 6
_KINDS = [kind.value for kind in FaultKind]


@click.command("chaos")
@click.option("--documents", type=click.IntRange(1, 9999), default=20, show_default=True, help="To hand in.")
@click.option("--faults", type=click.IntRange(0), default=40, show_default=True, help="To strike meanwhile.")
@click.option("--seed", type=int, default=1, show_default=True, help="Draws documents and faults.")
@click.option("--slots", type=click.IntRange(1), default=2, show_default=True, help="Recognising processes.")
@click.option("--kind", "kinds", type=click.Choice(_KINDS), multiple=True, metavar="KIND", help="Only such faults.")
@click.option("--home", type=click.Path(path_type=Path), help="Keep the drill's data and logs here; an empty folder.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def chaos_command(
    *,
    documents: int,
    faults: int,
    seed: int,
    slots: int,
    kinds: tuple[str, ...],
    home: Path | None,
    as_json: bool,
) -> None:
    """Break a stack of its own on this machine in many ways, and see that nothing is lost.

    Starts servers and workers in a temporary home, hands in generated documents with known text, and kills, stops and
    cuts what it started while they are read; the same seed draws the same documents and faults. Your running stack and
    settings are not touched. Exit code: 0 nothing was lost, doubled, stuck or overlapping, 6 something was (the home is
    kept then), 1 it could not be run, 130 interrupted. Kinds of faults and the table: docs/operations.md.
    """
    if home is not None and home.exists() and any(home.iterdir()):
        raise click.UsageError(f"{home} is not empty: a drill needs a folder of its own")
    schedule = draw(seed, documents=documents, faults=faults, kinds=[FaultKind(kind) for kind in kinds or _KINDS])
    place = (home or Path(tempfile.mkdtemp(prefix="muniment-chaos-"))).resolve()
    code = 1
    try:
        with interruptible():
            is_clean = _drill(schedule, place, seed=seed, slots=slots, as_json=as_json)
        code = 0 if is_clean else EXIT_NOT_CLEAN
    except KeyboardInterrupt:
        click.echo("interrupted: nothing is left running", err=True)
        code = EXIT_INTERRUPTED
    finally:
        if home is None and code in (0, EXIT_INTERRUPTED):
            _remove(place)
        else:
            click.echo(f"data and logs: {place}", err=True)
    sys.exit(code)


def _drill(schedule: Schedule, home: Path, *, seed: int, slots: int, as_json: bool) -> bool:
    from pipeline.chaos.drill import run
    from pipeline.chaos.report import Report
    from pipeline.chaos.verdict import judge

    record = run(schedule, home, slots=slots, say=lambda line: click.echo(line, err=True))
    verdict = judge(schedule.documents, record.rows, record.results, readings=record.readings, absent=record.absent)
    report = Report(seed=seed, schedule=schedule, record=record, verdict=verdict)
    click.echo(json.dumps(report.as_json(), indent=2) if as_json else report.as_text())
    return report.is_clean


def _remove(home: Path) -> None:
    """Remove a drill's home, and the database that lies elsewhere where root can't run it at home."""
    import shutil

    database = home / "postgres" / "data"
    if database.is_symlink():
        shutil.rmtree(database.resolve().parent)
    shutil.rmtree(home)
