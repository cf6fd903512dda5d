"""`review`: the pages that somebody should look at."""

import json
from datetime import datetime
from typing import TYPE_CHECKING

import click

from pipeline.commands import remote as elsewhere
from pipeline.commands.options import TIME_FORMS, as_utc
from pipeline.commands.remote import may_be_elsewhere

if TYPE_CHECKING:
    from pipeline.client import Client
    from pipeline.domain.recognition import Flag
    from pipeline.ports.review import FlaggedPage, Place


def _place(_context: click.Context, _parameter: click.Parameter, value: str | None) -> "Place | None":
    from pipeline.ports.review import Place

    try:
        return Place.parse(value) if value else None
    except ValueError:
        raise click.BadParameter(f"{value} is no cursor: take the one that the list before ended with") from None


@click.command("review")
@click.option("--job", "job_id", help="Only pages of this job.")
@click.option("--tenant", help="Only pages of this tenant's jobs.")
@click.option("--label", help="Only pages of this batch.")
@click.option("--flag", help="Only pages with this flag, by its score.")
@click.option("--min-score", type=click.FloatRange(0, 1), default=0.0, help="Only pages that are as bad or worse.")
@click.option("--since", type=click.DateTime(TIME_FORMS), help="Only of jobs submitted then or later, UTC.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", "after", callback=_place, help="Go on where a list ended.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a page.")
@may_be_elsewhere
def review_command(
    *,
    remote: "Client | None",
    job_id: str | None,
    tenant: str | None,
    label: str | None,
    flag: str | None,
    min_score: float,
    since: datetime | None,
    limit: int,
    after: "Place | None",
    as_json: bool,
) -> None:
    """List flagged pages of all jobs, the worst first; what the flags mean: docs/output.md."""
    if remote:
        elsewhere.refuse("tenant", "after")
        narrowed = {"label": label, "flag": flag, "min_score": min_score, "since": as_utc(since)}
        elsewhere.review(remote, limit, as_json=as_json, job_id=job_id, **narrowed)
        return
    from pipeline.commands.access import open_access, parse_id
    from pipeline.ports.review import ReviewFilter

    wanted = ReviewFilter(
        tenant=tenant,
        job_id=parse_id(job_id) if job_id else None,
        label=label,
        flag=flag,
        min_doubt=min_score,
        since=as_utc(since),
        after=after,
    )
    with open_access() as access:
        found = access.review.pages(limit, wanted)
    shown = _as_json if as_json else _as_text
    for page in found:
        click.echo(shown(page))
    if len(found) == limit:
        click.echo(f"go on with --cursor {found[-1].place}", err=True)


def _as_json(page: "FlaggedPage") -> str:
    return json.dumps(
        {
            "job_id": str(page.job_id),
            "tenant": page.tenant,
            "label": page.label,
            "source_name": page.source_name,
            "number": page.number,
            "source_file": page.source_file,
            "outcome": page.outcome.value,
            "confidence": page.confidence,
            "score": page.doubt,
            "flags": [{"name": flag.name, "score": flag.score} for flag in page.flags],
            "cursor": str(page.place),
        },
        ensure_ascii=False,
    )


def _as_text(page: "FlaggedPage") -> str:
    flags = ", ".join(map(_shown, page.flags))
    name = f"{page.source_name}: {page.source_file}" if page.source_file else page.source_name
    return f"{page.doubt:.2f}  {page.job_id}  page {page.number:<5} {name}  {flags}"


def _shown(flag: "Flag") -> str:
    return flag.name if flag.score is None else f"{flag.name} {flag.score:.2f}"
