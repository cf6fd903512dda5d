"""The command line `muniment`. Each command's module is imported only when it is called, so that help comes at once."""

import importlib
import os
import sys

import click

from pipeline import __version__

_COMMANDS = {
    "run": ("run", "Recognise files here and now, and write the results to a folder."),
    "up": ("stack", "Start the embedded stack: servers, API, workers, Flower."),
    "down": ("stack", "Stop the embedded stack."),
    "status": ("stack", "Show what runs, what waits and what each device does."),
    "submit": ("jobs", "Hand in files or URIs, and print their job ids."),
    "jobs": ("jobs", "List the newest jobs."),
    "show": ("jobs", "Show a job: state, pages, error, trail."),
    "result": ("jobs", "Print or save an output of a job."),
    "review": ("review", "List flagged pages of all jobs, the worst first."),
    "cancel": ("control", "Cancel jobs, a batch or a tenant's."),
    "pause": ("control", "Let jobs, a batch or a tenant's wait."),
    "resume": ("control", "Let what was paused go on."),
    "change": ("control", "Change the priority, deadline or hours of jobs."),
    "retry": ("control", "Begin ended jobs again; pages that have a result keep it."),
    "tenants": ("control", "List tenants, or set what one may have."),
    "retention": ("retention", "Remove what has been kept long enough, or say what would go."),
    "keys": ("keys", "Make, list, rotate and revoke keys of the HTTP API."),
    "webhooks": ("webhooks", "Show and replay webhooks, and what they are signed with."),
    "devices": ("devices", "Show devices; `drain` and `resume` them."),
    "engines": ("engines", "List the engines and what they need."),
    "evaluate": ("evaluate", "Say what the results of a corpus with known texts are worth."),
    "bench": ("bench", "Measure an engine's time and memory here."),
    "soak": ("soak", "See whether an engine's memory or time grows."),
    "doctor": ("doctor", "Check this installation and say what to do."),
    "chaos": ("chaos", "Break a stack of its own here, and see that nothing is lost."),
    "db": ("database", "Manage the database's schema."),
    "prepare": ("database", "Make named servers usable: schema, bucket and its rules."),
    "worker": ("processes", "Run one Celery worker."),
    "dispatcher": ("processes", "Run a dispatcher."),
    "api": ("processes", "Run the HTTP API."),
    "launcher": ("processes", "Run one worker for each device of this host."),
    "metrics": ("processes", "Serve what the rows say, for Prometheus."),
    "probe": ("processes", "Ask a process of this host whether it is ready."),
    "flower": ("processes", "Run Flower over our Celery application."),
}
EXIT_UNEXPECTED = 1
_OURS = frozenset({"PipelineError", "StackError", "SettingsError", "ApiError"})


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"pipeline.commands.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="muniment")
def cli() -> None:
    """Digitise archives: scans and PDFs in, checked pages out, every page accounted for."""


def main() -> None:
    """Run the command line; errors of ours end in one line that says what to do."""
    try:
        cli()
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if not _is_ours(error) or os.environ.get("MUNIMENT_TRACEBACK"):
            raise
        click.echo(f"muniment: {error}", err=True)
        sys.exit(EXIT_UNEXPECTED)


def _is_ours(error: Exception) -> bool:
    # By name, because importing the classes would cost every command what only failing ones need.
    return any(base.__module__.startswith("pipeline.") and base.__name__ in _OURS for base in type(error).__mro__)


if __name__ == "__main__":
    main()
