"""`devices`: what each accelerator and CPU slot does; `devices drain`, `devices resume`: which of them take chunks."""

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pipeline.ports.devices import DeviceStatus

_GONE = "gone"


@click.group("devices", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a device.")
@click.pass_context
def devices_command(context: click.Context, as_json: bool) -> None:
    """Show each device: state, engine, memory, and what it reads."""
    if context.invoked_subcommand is None:
        _show(as_json=as_json)


@devices_command.command("drain")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def _drain(names: tuple[str, ...]) -> None:
    """Have devices finish their page, hand back their chunk and take nothing until they are resumed."""
    _set_drain(names, drain=True)


@devices_command.command("resume")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def _resume(names: tuple[str, ...]) -> None:
    """Have devices take chunks again."""
    _set_drain(names, drain=False)


def _show(*, as_json: bool) -> None:
    from pipeline.commands.access import open_access

    with open_access() as access:
        devices = access.devices.all()
    for device in devices:
        click.echo(json.dumps(_as_json(device)) if as_json else _as_text(device))


def _set_drain(names: tuple[str, ...], *, drain: bool) -> None:
    from pipeline.commands.access import open_access

    with open_access() as access:
        changed = access.devices.set_drain(names, drain=drain)
    for device_id in changed:
        click.echo(f"{device_id}: {'takes nothing more' if drain else 'takes chunks'}")
    known = {name for device_id in changed for name in (device_id, device_id.rpartition("/")[2])}
    if unknown := [name for name in names if name not in known]:
        raise click.ClickException(f"there is no device {', '.join(unknown)}: see `muniment devices`")


def _state(device: "DeviceStatus") -> str:
    return device.state.value if device.is_live else _GONE


def _as_json(device: "DeviceStatus") -> dict[str, Any]:
    return {
        "host": device.host,
        "name": device.name,
        "kind": device.kind,
        "state": _state(device),
        "drain_requested": device.drain_requested,
        "holder": device.holder,
        "engine": device.engine,
        "revision": device.revision,
        "problem": device.problem,
        "total_bytes": device.total_bytes,
        "free_bytes": device.free_bytes,
        "baseline_bytes": device.baseline_bytes,
        "peak_bytes": device.peak_bytes,
        "chunk_id": str(device.chunk_id) if device.chunk_id else None,
        "job_id": str(device.job_id) if device.job_id else None,
        "updated_at": device.updated_at.isoformat(),
    }


def _as_text(device: "DeviceStatus") -> str:
    engine = f"{device.engine} {device.revision}" if device.engine else "no engine yet"
    memory = f"baseline {_mib(device.baseline_bytes)}, peak {_mib(device.peak_bytes)}"
    parts = [f"{device.device_id}  {_state(device):8}  {engine}  {memory}"]
    if device.problem and device.is_live:
        parts.append(f"takes nothing: {device.problem}")
    if device.drain_requested:
        parts.append("asked to drain")
    if device.chunk_id:
        parts.append(f"reads chunk {device.chunk_id} of job {device.job_id}")
    return "  ".join(parts)


def _mib(size_bytes: int | None) -> str:
    return "?" if size_bytes is None else f"{size_bytes / 2**20:.0f} MiB"
