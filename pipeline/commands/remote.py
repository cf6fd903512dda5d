"""The commands about documents, done through the HTTP API of a system elsewhere."""

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from pipeline.api.schemas import JobFields
    from pipeline.client import Client
    from pipeline.domain.password import Password

Command = TypeVar("Command", bound=Callable[..., Any])
_MOST_CHARACTERS = 200


def may_be_elsewhere(command: Command) -> Command:
    """Add `--server` to a command, which gets a client as `remote` where a server is named, else None."""

    @click.option("--server", envvar="MUNIMENT_SERVER", metavar="URL", help="Work through the HTTP API there.")
    @click.option(
        "--key-file",
        type=click.File(),
        envvar="MUNIMENT_KEY_FILE",
        help="Holds the key for --server; default: what MUNIMENT_KEY says.",
    )
    @click.option("--key", envvar="MUNIMENT_KEY", hidden=True)
    @functools.wraps(command)
    def called(*, server: str | None, key_file: IO[str] | None, key: str | None, **given: Any) -> Any:
        return command(remote=_client(server, key_file, key) if server else None, **given)

    return called  # type: ignore[return-value]


def _client(server: str, key_file: IO[str] | None, key: str | None) -> "Client":
    from pipeline.client import Client

    if not server.startswith(("http://", "https://")):
        raise click.UsageError(f"--server is a URL such as https://muniment.example, not {server}")
    token = key_file.read(_MOST_CHARACTERS).strip() if key_file else key
    if not token:
        raise click.UsageError("a server asks for a key: name a --key-file, or set MUNIMENT_KEY")
    return Client(server, token)


def refuse(*names: str) -> None:
    """Raises: click.UsageError, if one of these options was given: with --server, the key says whose jobs they are."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is not for --server")


def submit(
    remote: "Client",
    sources: Sequence[str],
    *,
    idempotency_key: str | None,
    password: "Password | None",
    options: Mapping[str, object],
    **given: object,
) -> None:
    """Hand in files and URIs, and print a job id for each."""
    from pipeline.api.schemas import JobFields

    asked = {**given, "password": password and password.reveal, "options": dict(options) or None}
    fields = _valid(JobFields, {name: value for name, value in asked.items() if value is not None})
    for source in sources:
        key = idempotency_key or str(uuid4())
        try:
            if "://" in source:
                job = remote.submit_uri(source, fields, idempotency_key=key)
            else:
                job = remote.submit(Path(source), fields, idempotency_key=key)
        except BaseException:
            click.echo(f"{source}: to go on where this ended, hand it in with --idempotency-key {key}", err=True)
            raise
        click.echo(str(job.id))


def show(remote: "Client", job_id: str, *, as_json: bool) -> None:
    """Print what a job is now."""
    described = remote.job(_id(job_id)).model_dump(mode="json")
    if as_json:
        click.echo(json.dumps(described, ensure_ascii=False, indent=2))
        return
    for name, value in described.items():
        shown = " ".join(f"{key}={each}" for key, each in value.items()) if isinstance(value, dict) else value
        click.echo(f"{name:12} {shown}")


def jobs(remote: "Client", *, state: str | None, label: str | None, limit: int, as_json: bool) -> None:
    """Print the newest jobs."""
    for job in remote.jobs(state=state, label=label, limit=limit):
        if as_json:
            click.echo(json.dumps(job.model_dump(mode="json"), ensure_ascii=False))
        else:
            pages = f"{job.pages.done}/{job.pages.total if job.pages.total is not None else '?'} pages"
            click.echo(f"{job.id}  {job.state:10}  {pages:>14}  {job.name}")


def review(remote: "Client", limit: int, *, as_json: bool, job_id: str | None, **wanted: Any) -> None:
    """Print flagged pages, the worst first."""
    for page in islice(remote.review(job_id=_id(job_id) if job_id else None, **wanted), limit):
        if as_json:
            click.echo(json.dumps(page.model_dump(mode="json"), ensure_ascii=False))
            continue
        flags = ", ".join(flag.name if flag.score is None else f"{flag.name} {flag.score:.2f}" for flag in page.flags)
        click.echo(f"{page.score:.2f}  {page.job}  page {page.number:<5} {page.name}  {flags}")


def result(remote: "Client", job_id: str, form: str, out: Path | None) -> None:
    """Print or save an output."""
    from pipeline.domain.options import OutputFormat

    with remote.result(_id(job_id), OutputFormat(form)) as pieces:
        if out is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            return
        partial = out.with_name(out.name + ".partial")
        with partial.open("wb") as file:
            file.writelines(pieces)
        partial.replace(out)


def act(remote: "Client", job_ids: Sequence[str], label: str | None, act: str, done: str) -> None:
    """Cancel, pause or resume jobs or a batch."""
    _each(job_ids, label, getattr(remote, act), lambda of: remote.act_on_batch(of, act), done)


def change(remote: "Client", job_ids: Sequence[str], label: str | None, wanted: Mapping[str, object]) -> None:
    """Change jobs or a batch."""
    _each(
        job_ids,
        label,
        lambda job_id: remote.change(job_id, **wanted),
        lambda of: remote.change_batch(of, **wanted),
        "changed",
    )


def retry(remote: "Client", job_ids: Sequence[str], wanted: Mapping[str, object]) -> None:
    """Begin ended jobs again."""
    for job_id in job_ids:
        remote.retry(_id(job_id), **wanted)
        click.echo(f"{job_id}: begun again")


def _each(
    job_ids: Sequence[str],
    label: str | None,
    one: Callable[[UUID], object],
    batch: Callable[[str], Sequence[UUID]],
    done: str,
) -> None:
    refuse("tenant")
    if bool(job_ids) == bool(label):
        raise click.UsageError("name jobs, or a --label")
    for job_id in job_ids:
        one(_id(job_id))
        click.echo(f"{job_id}: {done}")
    if label:
        for changed in batch(label):
            click.echo(f"{changed}: {done}")


def _id(job_id: str) -> UUID:
    from pipeline.commands.access import parse_id

    return UUID(str(parse_id(job_id)))


def _valid(model: "type[JobFields]", values: Mapping[str, object]) -> "JobFields":
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors())
        raise click.UsageError(told) from error
