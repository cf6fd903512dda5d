"""`engines`: what could read here, and what keeps the others from it."""

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pipeline.engines.registry import Offer


@click.command("engines")
@click.option("--json", "as_json", is_flag=True, help="One JSON object an engine.")
def engines_command(as_json: bool) -> None:
    """List the engines: how each reads, what it runs on and needs, and whether it can run on this host."""
    from pipeline.engines.registry import offers
    from pipeline.settings import read_settings

    devices = read_settings().devices
    shown = _as_json if as_json else _as_text
    for offer in offers(devices.engine_options):
        click.echo(shown(offer, devices.engine))


def _as_json(offer: "Offer", default: str) -> str:
    plugin = offer.plugin
    return json.dumps(
        {
            "name": offer.name,
            "default": offer.name == default,
            "reads": plugin and plugin.reads,
            "runs_on": plugin and plugin.runs_on,
            "needs": plugin and plugin.needs,
            "revision": plugin and plugin.revision,
            "available": offer.problem is None,
            "problem": offer.problem,
        }
    )


def _as_text(offer: "Offer", default: str) -> str:
    lines = [f"{'no ' if offer.problem else 'ok '} {offer.name}{' (default)' if offer.name == default else ''}"]
    if plugin := offer.plugin:
        lines.append(f"reads a {plugin.reads} at a time on {' or '.join(plugin.runs_on)}: {plugin.revision}")
        lines.append(f"needs {plugin.needs}")
    if offer.problem:
        lines.append(offer.problem)
    return "\n      ".join(lines)
