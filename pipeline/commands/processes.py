"""`worker`, `dispatcher`, `launcher`, `flower`: the processes one by one, under someone else's care."""

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


@click.command("launcher")
def launcher_command() -> None:
    """Run one worker for each device of this host, and keep them running."""
    _become("workers.launcher")


@click.command("flower", context_settings=_PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def flower_command(arguments: tuple[str, ...]) -> None:
    """Run Flower over our Celery application; arguments are Flower's, or `FLOWER_*` in the environment."""
    _become("celery", "--app", "workers.app", "flower", *arguments)
