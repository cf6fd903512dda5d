"""`evaluate`: what the results of a corpus with known texts are worth, and whether they became worse."""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.commands.interruption import EXIT_INTERRUPTED, interruptible
from pipeline.commands.options import collected, document_options

if TYPE_CHECKING:
    from pipeline.ports.submissions import Submission

EXIT_WORSE = 7


@click.command("evaluate")
@click.option(
    "--corpus",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder: files with their texts beside them, NAME.gt.txt or NAME.pN.gt.txt.",
)
@click.option("--only", default="", metavar="PREFIX", help="Only files whose names begin so.")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="Write the evaluation as JSON.")
@click.option(
    "--against", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A saved evaluation to beat."
)
@click.option("--tolerance", type=click.FloatRange(0, 1), default=0.005, show_default=True, help="Not yet worse.")
@document_options
def evaluate_command(
    *,
    corpus: Path,
    only: str,
    save: Path | None,
    against: Path | None,
    tolerance: float,
    priority: int,
    **options: object,
) -> None:
    """Recognise a corpus whose texts are known, and print what that was worth, as Markdown.

    Exit code: 0, or 7 if this is worse than --against; 2 wrong usage, 130 interrupted. How the numbers are made:
    docs/quality.md.
    """
    from pipeline.evaluation.evaluation import Evaluation, evaluate, regressions
    from pipeline.evaluation.tables import markdown
    from pipeline.evaluation.truth import CorpusError, read_corpus
    from pipeline.ports.submissions import Submission

    try:
        known = read_corpus(corpus, only)
        before = Evaluation.model_validate_json(against.read_text(encoding="utf-8")) if against else None
    except CorpusError as error:
        raise click.UsageError(str(error)) from None
    except ValueError as error:
        raise click.UsageError(f"{against} is no saved evaluation: {error}") from None
    started = time.monotonic()
    asked = Submission(options=collected(**options) | {"formats": ["json"]}, priority=priority)  # type: ignore[arg-type]
    results = _recognised([corpus / str(document.file) for document in known], asked)
    now = evaluate(known, results, time.monotonic() - started)
    click.echo(markdown(now), nl=False)
    for what in now.unexpected:
        click.echo(f"- {what}")
    if save:
        save.write_text(now.model_dump_json(indent=1) + "\n", encoding="utf-8")
    worse = regressions(now, before, tolerance=tolerance) if before else []
    for what in worse:
        click.echo(f"worse: {what}", err=True)
    sys.exit(EXIT_WORSE if worse else 0)


def _recognised(paths: Sequence[Path], asked: "Submission") -> dict[str, Any]:
    """Return what became of each file, by its name."""
    from pipeline.commands.report import Report
    from pipeline.commands.run import recognise

    with tempfile.TemporaryDirectory(prefix="muniment-evaluate-") as folder, interruptible():
        report = Report(Path(folder), says=_say)
        try:
            recognise(paths, report, asked)
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
        return {
            Path(result["source"]).name: {
                "state": result["state"],
                "page_count": result["page_count"],
                "pages": _pages(result["outputs"].get("json")),
            }
            for result in report.results
        }


def _say(result: dict[str, Any]) -> None:
    click.echo(f"{result['source']}: {result['state']}", err=True)


def _pages(path: str | None) -> list[Any]:
    pages: list[Any] = json.loads(Path(path).read_text(encoding="utf-8"))["pages"] if path else []
    return pages
