"""The processes one by one, under someone else's care: `worker`, `dispatcher`, `api`, `launcher`, ..."""

import os
import sys

import click

_PASSED_ON = {"ignore_unknown_options": True, "help_option_names": []}


def _become(*command: str) -> None:
    """Replace this process: signals, exit codes and the parent's death then concern the real one."""
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", *command])  # noqa: S606 - no shell is wanted


@click.command("worker", context_settings=_PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def worker_command(arguments: tuple[str, ...]) -> None:
    """Run one Celery worker; `muniment worker --help` shows its arguments."""
    _become("workers.worker", *arguments)


@click.command("dispatcher")
def dispatcher_command() -> None:
    """Run a dispatcher: it moves due rows onto the broker and finds what was lost. Any number may run."""
    _become("workers.dispatcher")


@click.command("api")
def api_command() -> None:
    """Run the HTTP API, where `api.host` and `api.port` say. Any number may run, behind whatever spreads requests."""
    _become("pipeline.api.server")


@click.command("launcher")
@click.option("--echo", is_flag=True, help="Print what the workers log, beside their log files.")
def launcher_command(echo: bool) -> None:
    """Run one worker for each device of this host, and keep them running."""
    _become("workers.launcher", *(["--echo"] if echo else []))


@click.command("flower", context_settings=_PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def flower_command(arguments: tuple[str, ...]) -> None:
    """Run Flower over our Celery application; arguments are Flower's, or `FLOWER_*` in the environment."""
    _become("celery", "--app", "workers.app", "flower", *arguments)


@click.command("metrics")
@click.option("--once", is_flag=True, help="Print what the rows say now, and end.")
def metrics_command(once: bool) -> None:
    """Serve what the rows say, for Prometheus, on `metrics.port`; one is enough, more do no harm."""
    if not once:
        _become("pipeline.monitoring.exporter")
    from pipeline.monitoring import exporter
    from pipeline.settings import read_settings

    click.echo(exporter.once(read_settings()), nl=False)


@click.command("probe")
@click.option("--live", is_flag=True, help="Only whether it lives, not whether it can do its work.")
def probe_command(live: bool) -> None:
    """Ask the process that serves `metrics.port` here whether it is ready: exit code 0 or 1, for health checks."""
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    from pipeline.settings import read_settings

    metrics = read_settings().metrics
    host = "127.0.0.1" if metrics.host in ("0.0.0.0", "::") else metrics.host  # noqa: S104 - any means this host, too
    try:
        with urlopen(f"http://{host}:{metrics.port}/{'livez' if live else 'readyz'}", timeout=5) as answer:
            click.echo(answer.read().decode().strip())
    except HTTPError as error:
        raise click.ClickException(error.read().decode().strip()) from error
    except (URLError, OSError) as error:
        raise click.ClickException(f"nobody answers at {host}:{metrics.port}: {error}") from error
