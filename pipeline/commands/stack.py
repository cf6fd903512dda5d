"""`up`, `down`, `status`: the embedded stack."""

import json

import click


@click.command("up")
@click.option("--detach", is_flag=True, help="Return when it is ready, and leave it running.")
@click.option("--cpu-slots", type=click.IntRange(0), help="Recognising processes; default one for each core.")
@click.option("--no-flower", is_flag=True, help="Leave Flower out.")
def up_command(detach: bool, cpu_slots: int | None, no_flower: bool) -> None:
    """Start the embedded stack: servers, API, dispatcher, workers and Flower, all on loopback."""
    from pipeline.embedded.stack import read_state, serve, start_detached
    from pipeline.settings import default_home, read_settings

    home = default_home()

    def announce() -> None:
        state = read_state(home)
        click.echo(f"ready; logs in {home / 'logs'}")
        if state and state.api:
            click.echo(f"API: {state.api.url} (its key: `muniment keys show`)")
        if state and state.flower:
            # The password is for whoever may read the state file, not for a terminal's history.
            click.echo(f"Flower: {state.flower.url} (user {state.flower.user}; `muniment status --secrets` shows more)")
        if not detach:
            click.echo("Ctrl-C stops it")

    if detach:
        start_detached(home, with_flower=not no_flower, cpu_slots=cpu_slots)
        announce()
        return
    import asyncio

    asyncio.run(serve(home, read_settings(), with_flower=not no_flower, cpu_slots=cpu_slots, on_ready=announce))


@click.command("down")
def down_command() -> None:
    """Stop the embedded stack; pages in work are finished first, what waits goes on at the next start."""
    from pipeline.embedded.stack import stop
    from pipeline.settings import default_home

    home = default_home()
    click.echo("stopped" if stop(home) else f"nothing runs in {home}")


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--secrets", is_flag=True, help="Show the addresses with their passwords.")
def status_command(as_json: bool, secrets: bool) -> None:
    """Show what runs, what waits and what each device does. Exit code 1 if nothing runs."""
    from pipeline.commands.overview import overview

    seen = overview(secrets=secrets)
    if as_json:
        click.echo(json.dumps(seen.as_json(), ensure_ascii=False, indent=2))
    else:
        click.echo(seen.as_text())
    if not seen.runs:
        raise SystemExit(1)
