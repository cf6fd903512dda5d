"""`submit`, `jobs`, `show`, `result`: documents in a running system."""

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from pipeline.commands import remote as elsewhere
from pipeline.commands.options import TIME_FORMS, as_utc, collected, document_options
from pipeline.commands.passwords import given_password, password_options
from pipeline.commands.remote import may_be_elsewhere

if TYPE_CHECKING:
    from pipeline.client import Client
    from pipeline.commands.access import Access
    from pipeline.domain.forecast import Forecast
    from pipeline.ports.submissions import JobStatus

_EVENTS = ("job.running", "job.succeeded", "job.partial", "job.rejected", "job.failed", "job.cancelled")
_STATES = (
    "submitted planning running merging exporting delivering succeeded partial rejected failed cancelled".split()  # noqa: SIM905 - reads best in one line
)


@click.command("submit")
@click.argument("sources", nargs=-1, required=True, metavar="FILE_OR_URI...")
@click.option("--idempotency-key", help="The same key again gives the same job; for a single source.")
@click.option("--tenant", default="default", show_default=True, help="Whose jobs they are.")
@click.option("--label", help="The batch that they belong to.")
@click.option("--hours", help="When they may run: 20:00-06:00, or 20:00-06:00 Asia/Shanghai; UTC without a zone.")
@click.option("--deadline", type=click.DateTime(TIME_FORMS), help="When they are to be done, UTC; they end then.")
@click.option("--callback", "callback_url", help="A URL that is told of the ends of these jobs.")
@click.option(
    "--callback-event",
    "callback_events",
    type=click.Choice(_EVENTS),
    multiple=True,
    help="Of these instead; repeatable.",
)
@password_options
@document_options
@may_be_elsewhere
def submit_command(
    *,
    remote: "Client | None",
    sources: tuple[str, ...],
    idempotency_key: str | None,
    priority: int,
    tenant: str,
    label: str | None,
    hours: str | None,
    deadline: datetime | None,
    callback_url: str | None,
    callback_events: tuple[str, ...],
    password_file: IO[str] | None,
    ask_password: bool,
    **options: object,
) -> None:
    """Hand in files, s3://, https:// or file:// URIs, and print a job id for each; does not wait."""
    from pipeline.commands.access import open_access
    from pipeline.domain.webhooks import WebhookEvent
    from pipeline.ports.submissions import Submission

    if idempotency_key and len(sources) > 1:
        raise click.UsageError("an idempotency key names one job: give one source")
    missing = [source for source in sources if "://" not in source and not Path(source).is_file()]
    if missing:
        raise click.UsageError(f"there is no file {', '.join(missing)}")
    asked = collected(**options)  # type: ignore[arg-type]
    password = given_password(password_file=password_file, ask_password=ask_password)
    if remote:
        elsewhere.refuse("tenant")
        elsewhere.submit(
            remote,
            sources,
            idempotency_key=idempotency_key,
            password=password,
            options=asked,
            priority=priority,
            label=label,
            hours=hours,
            deadline=as_utc(deadline),
            callback_url=callback_url,
            callback_events=callback_events or None,
        )
        return
    with open_access() as access:
        if callback_url:
            _check_callback(access, callback_url)
        for source in sources:
            is_uri = "://" in source
            submission = Submission(
                source_uri=source if is_uri else None,
                upload_key=None if is_uri else access.upload(Path(source)),
                source_name=None if is_uri else Path(source).name,
                options=asked,
                priority=priority,
                idempotency_key=idempotency_key,
                tenant=tenant,
                label=label,
                hours=hours,
                deadline=as_utc(deadline),
                password=password,
                callback_url=callback_url,
                callback_events=tuple(map(WebhookEvent, callback_events)),
            )
            click.echo(access.submissions.insert(submission))


@click.command("jobs")
@click.option("--state", type=click.Choice(_STATES), help="Only those.")
@click.option("--tenant", help="Only those of this tenant.")
@click.option("--label", help="Only those of this batch.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a job.")
@may_be_elsewhere
def jobs_command(
    *, remote: "Client | None", state: str | None, tenant: str | None, label: str | None, limit: int, as_json: bool
) -> None:
    """List the newest jobs, newest first."""
    if remote:
        elsewhere.refuse("tenant")
        elsewhere.jobs(remote, state=state, label=label, limit=limit, as_json=as_json)
        return
    from pipeline.commands.access import open_access
    from pipeline.domain.states import JobState
    from pipeline.ports.submissions import JobFilter

    states = frozenset({JobState(state)} if state else ())
    with open_access() as access:
        found = access.submissions.latest(limit, JobFilter(states=states, tenant=tenant, label=label))
    for status in found:
        if as_json:
            click.echo(json.dumps(_as_json(status), ensure_ascii=False))
        else:
            pages = f"{status.pages_done}/{status.page_count if status.page_count is not None else '?'} pages"
            click.echo(f"{status.job_id}  {status.state:10}  {pages:>14}  {status.source_name}")


@click.command("show")
@click.argument("job_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@may_be_elsewhere
def show_command(*, remote: "Client | None", job_id: str, as_json: bool) -> None:
    """Show a job: state, what it waits for, pages by outcome, error, outputs and its trail."""
    if remote:
        elsewhere.show(remote, job_id, as_json=as_json)
        return
    from pipeline.commands.access import open_access

    with open_access() as access:
        status = access.job(job_id)
        events = access.submissions.events(status.job_id, limit=200)
        waits_for = {"waits_for": access.reasons.waits_for([status.job_id]).get(status.job_id)}
        described = _as_json(status) | waits_for | _foreseen(access.forecasts.of([status.job_id]).get(status.job_id))
    if as_json:
        trail = [
            {"at": event.at.isoformat(), "actor": event.actor, "kind": event.kind, "detail": event.detail}
            for event in events
        ]
        click.echo(json.dumps(described | {"events": trail}, ensure_ascii=False, indent=2))
        return
    for name, value in described.items():
        click.echo(f"{name:12} {value if not isinstance(value, dict) else _pairs(value)}")
    for event in events:
        click.echo(f"{event.at:%H:%M:%S}  {event.kind:16} {event.actor}  {_pairs(event.detail)}")


@click.command("result")
@click.argument("job_id")
@click.option("--format", "form", type=click.Choice(("json", "markdown", "text")), default="text", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="A file instead of standard output.")
@may_be_elsewhere
def result_command(*, remote: "Client | None", job_id: str, form: str, out: Path | None) -> None:
    """Print or save an output of a job."""
    if remote:
        elsewhere.result(remote, job_id, form, out)
        return
    from pipeline.commands.access import open_access

    with open_access() as access:
        status = access.job(job_id)
        key = status.result_keys.get(form)
        if key is None:
            written = ", ".join(status.result_keys) or "none"
            raise click.ClickException(f"job {job_id} is {status.state} and has no output {form}; it has: {written}")
        if out:
            access.save(key, out)
            return
        with access.objects.get(key) as pieces:
            for piece in pieces:
                sys.stdout.buffer.write(piece)


def _check_callback(access: "Access", url: str) -> None:
    from pipeline.domain.web import NotAllowed, parse_target

    try:
        parse_target(url, access.settings.webhooks.web_rules())
    except NotAllowed as error:
        raise click.UsageError(f"--callback: {error} (webhooks.*)") from error


def _as_json(status: "JobStatus") -> dict[str, Any]:
    return {
        "job_id": str(status.job_id),
        "tenant": status.tenant,
        "source": status.source,
        "state": status.state.value,
        "priority": status.priority,
        "page_count": status.page_count,
        "outcomes": {outcome.value: count for outcome, count in status.outcomes.items()},
        "flags": [flag.name for flag in status.flags],
        "outputs": dict(status.result_keys),
        "error": {"code": status.error_code, "message": status.error_detail} if status.error_code else None,
        "cancelling": status.cancel_requested and not status.state.is_terminal,
        "label": status.label,
        "paused": status.paused,
        "hours": status.hours,
        "deadline": status.deadline.isoformat() if status.deadline else None,
        "callback_url": status.callback_url,
        "created_at": status.created_at.isoformat(),
        "finished_at": status.finished_at.isoformat() if status.finished_at else None,
    }


def _foreseen(forecast: "Forecast | None") -> dict[str, Any]:
    if forecast is None:
        return {}
    left = forecast.time_left
    return {
        "ahead": {"jobs": forecast.ahead.jobs, "pages": round(forecast.ahead.pages)},
        "time_left": left and f"{_rounded(left.least)} to {_rounded(left.most)}",
    }


def _rounded(left: timedelta) -> timedelta:
    return timedelta(seconds=round(left.total_seconds()))


def _pairs(values: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())
