"""`cancel`, `pause`, `resume`, `change`, `retry`, `tenants`: what becomes of jobs that are there already."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar

import click

from pipeline.commands import remote as elsewhere
from pipeline.commands.options import TIME_FORMS, age, as_utc, language_option, profile_option, reuse_option
from pipeline.commands.passwords import given_password, password_options
from pipeline.commands.remote import may_be_elsewhere

if TYPE_CHECKING:
    from pipeline.client import Client
    from pipeline.domain.document import JobId
    from pipeline.domain.retention import Ages
    from pipeline.ports.control import Change, Target

Command = TypeVar("Command", bound=Callable[..., Any])


def _whom(command: Command) -> Command:
    """Add the ways to say whom a command concerns, which gets them by way of `_target`."""
    for option in (
        click.option("--tenant", help="All open jobs of this tenant; with --label, whose label it is."),
        click.option("--label", help="All open jobs of this batch, and those that join it later."),
        click.argument("job_ids", nargs=-1, metavar="[JOB_ID...]"),
    ):
        command = option(command)
    return command


@click.command("cancel")
@_whom
@may_be_elsewhere
def cancel_command(*, remote: "Client | None", job_ids: tuple[str, ...], label: str | None, tenant: str | None) -> None:
    """Cancel jobs; pages in work are finished first, what is finished stays.

    Jobs that join the batch or the tenant later are not concerned.
    """
    from pipeline.commands.access import open_access

    if remote:
        elsewhere.act(remote, job_ids, label, "cancel", "to be cancelled")
        return
    target = _target(job_ids, label, tenant)
    with open_access() as access:
        _report(job_ids, access.control.cancel(target), "to be cancelled")


@click.command("pause")
@_whom
@may_be_elsewhere
def pause_command(*, remote: "Client | None", job_ids: tuple[str, ...], label: str | None, tenant: str | None) -> None:
    """Let jobs wait; pages in work are finished first, what is finished stays."""
    from pipeline.ports.control import Change

    if remote:
        elsewhere.act(remote, job_ids, label, "pause", "paused")
        return
    _change(job_ids, _target(job_ids, label, tenant), Change(paused=True), "paused")


@click.command("resume")
@_whom
@may_be_elsewhere
def resume_command(*, remote: "Client | None", job_ids: tuple[str, ...], label: str | None, tenant: str | None) -> None:
    """Let what was paused go on."""
    from pipeline.ports.control import Change

    if remote:
        elsewhere.act(remote, job_ids, label, "resume", "may go on")
        return
    _change(job_ids, _target(job_ids, label, tenant), Change(paused=False), "may go on")


@click.command("change")
@_whom
@click.option("--priority", type=click.IntRange(-100, 100), help="Higher goes first.")
@click.option("--deadline", type=click.DateTime(TIME_FORMS), help="When they are to be done, UTC; they end then.")
@click.option("--hours", help="When they may run: 20:00-06:00, 20:00-06:00 Asia/Shanghai, or any.")
@may_be_elsewhere
def change_command(
    *,
    remote: "Client | None",
    job_ids: tuple[str, ...],
    label: str | None,
    tenant: str | None,
    priority: int | None,
    deadline: datetime | None,
    hours: str | None,
) -> None:
    """Change the priority, deadline or hours of open jobs."""
    from pipeline.ports.control import Change

    change = Change(priority=priority, deadline=as_utc(deadline), hours=hours)
    if change == Change():
        raise click.UsageError("say what to change: --priority, --deadline or --hours")
    if remote:
        wanted = {"priority": priority, "deadline": deadline and f"{deadline:%Y-%m-%dT%H:%M:%SZ}", "hours": hours}
        elsewhere.change(remote, job_ids, label, {name: value for name, value in wanted.items() if value is not None})
        return
    _change(job_ids, _target(job_ids, label, tenant), change, "changed")


@click.command("retry")
@click.argument("job_ids", nargs=-1, metavar="[JOB_ID...]")
@click.option("--all", "from_the_beginning", is_flag=True, help="All pages, also those that have a result.")
@click.option("--chunk", "chunk_ids", multiple=True, help="Only this chunk of an ended job; repeatable.")
@click.option("--engine", help="Which recogniser reads what is done again.")
@profile_option
@click.option("--dpi", type=click.FloatRange(36, 1200), help="What it is rendered at.")
@language_option
@reuse_option
@password_options
@may_be_elsewhere
def retry_command(
    *,
    remote: "Client | None",
    job_ids: tuple[str, ...],
    from_the_beginning: bool,
    chunk_ids: tuple[str, ...],
    engine: str | None,
    profile: str | None,
    dpi: float | None,
    languages: tuple[str, ...],
    reuse: bool | None,
    password_file: IO[str] | None,
    ask_password: bool,
) -> None:
    """Begin ended jobs again: their failed or missing pages, or all of it where no page has a result.

    Pages that have a result keep it, unless --all is given; the outputs are written again. The password of a protected
    document is forgotten when its job ends: give it again.
    """
    from pipeline.commands.access import open_access, parse_id
    from pipeline.domain.document import ChunkId
    from pipeline.engines.registry import names
    from pipeline.ports.control import Again

    if engine is not None and engine not in names():
        raise click.UsageError(f"there is no engine {engine}; there are {', '.join(names())}")
    if bool(job_ids) == bool(chunk_ids):
        raise click.UsageError("name either jobs or chunks")
    if chunk_ids and from_the_beginning:
        raise click.UsageError("--all is for whole jobs")
    options: dict[str, object] = {
        "engine": engine,
        "profile": profile,
        "dpi": dpi,
        "languages": list(languages) or None,
        "reuse": reuse,
    }
    asked = {name: value for name, value in options.items() if value is not None}
    password = given_password(password_file=password_file, ask_password=ask_password)
    if remote:
        elsewhere.refuse("chunk_ids")
        wanted: dict[str, object] = {"all_pages": from_the_beginning, "options": asked}
        elsewhere.retry(remote, job_ids, wanted | ({"password": password.reveal} if password else {}))
        return
    with open_access() as access:
        if job_ids:
            again = Again(from_the_beginning=from_the_beginning, options=asked, password=password)
            _report(job_ids, access.control.retry([parse_id(job_id) for job_id in job_ids], again), "begun again")
            return
        for chunk_id in chunk_ids:
            job_id = access.control.job_of(parse_id(chunk_id))
            if job_id is None:
                raise click.UsageError(f"there is no chunk {chunk_id}")
            again = Again(chunk_ids=(ChunkId(parse_id(chunk_id)),), options=asked, password=password)
            _report([str(job_id)], access.control.retry([job_id], again), "begun again")


@click.group("tenants", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a tenant.")
@click.pass_context
def tenants_command(context: click.Context, as_json: bool) -> None:
    """List tenants: weight, what they have queued, and how much they may."""
    from dataclasses import asdict

    from pipeline.commands.access import open_access

    if context.invoked_subcommand:
        return
    with open_access() as access:
        found = access.control.tenants()
    for tenant in found:
        if as_json:
            click.echo(json.dumps(asdict(tenant), ensure_ascii=False, default=_seconds))
            continue
        bound = "" if tenant.max_queued_pages is None else f" of {tenant.max_queued_pages}"
        state = "  paused" if tenant.paused else ""
        click.echo(
            f"{tenant.name:20}  weight {tenant.weight:g}  {tenant.open_jobs} open jobs"
            f"  {tenant.queued_pages}{bound} pages queued{state}{_kept(tenant.ages)}"
        )


@tenants_command.command("set")
@click.argument("name")
@click.option("--weight", type=click.FloatRange(min=0, min_open=True), help="Share of the devices beside the others.")
@click.option("--max-queued-pages", type=click.IntRange(min=0), help="Planned pages that its open jobs may have.")
@click.option("--keep-originals", type=age, help="How long after a job's end: 30d, 12h, or default.")
@click.option("--keep-page-images", type=age, help="The same of rendered pages.")
@click.option("--keep-segments", type=age, help="The same of finished pages, which a retry needs.")
@click.option("--keep-results", type=age, help="The same of outputs.")
@click.option("--keep-rows", type=age, help="The same of the job itself, and of all that is left of it.")
def set_command(
    *, name: str, weight: float | None, max_queued_pages: int | None, **ages: "timedelta | Literal['default'] | None"
) -> None:
    """Set a tenant's weight, bound or ages; it need not have jobs yet."""
    from pipeline.commands.access import open_access
    from pipeline.domain.retention import Kept

    given = {Kept(option.removeprefix("keep_")): own for option, own in ages.items() if own is not None}
    if weight is None and max_queued_pages is None and not given:
        raise click.UsageError("say what to set: --weight, --max-queued-pages or how long to --keep-...")
    own_ages = {what: None if own == "default" else own for what, own in given.items()}
    with open_access() as access:
        access.control.set_tenant(name, weight=weight, max_queued_pages=max_queued_pages, ages=own_ages)


def _seconds(kept: timedelta) -> float:
    return kept.total_seconds()


def _kept(ages: "Ages") -> str:
    from pipeline.domain.retention import Kept

    own = {what: kept for what in Kept if (kept := ages.of(what)) is not None}
    return "".join(f"  {what} kept {kept}" for what, kept in own.items())


def _target(job_ids: tuple[str, ...], label: str | None, tenant: str | None) -> "Target":
    from pipeline.commands.access import parse_id
    from pipeline.ports.control import Target

    if bool(job_ids) == bool(label or tenant):
        raise click.UsageError("name jobs, or a --label, or a --tenant")
    return Target(job_ids=tuple(parse_id(job_id) for job_id in job_ids), label=label, tenant=tenant or "default")


def _change(job_ids: tuple[str, ...], target: "Target", change: "Change", what: str) -> None:
    from pipeline.commands.access import open_access

    with open_access() as access:
        _report(job_ids, access.control.change(target, change), what)


def _report(asked: Sequence[str], changed: "Sequence[JobId]", what: str) -> None:
    for job_id in changed:
        click.echo(f"{job_id}: {what}")
    if unchanged := [job_id for job_id in asked if job_id.lower() not in map(str, changed)]:
        raise click.ClickException(f"nothing to do for {', '.join(unchanged)}: see `muniment show`")
