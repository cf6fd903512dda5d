"""Rules about the code as a whole that no single module can keep: who imports what, what is written down twice."""

import ast
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import click
import pytest

from pipeline.cli import cli
from pipeline.commands import jobs, options, webhooks
from pipeline.domain.errors import ErrorCode
from pipeline.domain.options import LanePolicy, OutputFormat
from pipeline.domain.states import JobState
from pipeline.domain.webhooks import DeliveryState, WebhookEvent
from pipeline.schemas import document_schema

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sysconfig.get_path("scripts"))

SLOW_TO_IMPORT = {"sqlalchemy", "alembic", "celery", "kombu", "numpy", "pydantic", "minio", "structlog", "PIL"}
ENGINES = {"torch", "transformers", "rapidocr", "openvino", "onnxruntime", "cv2"}
PASS_THEIR_ARGUMENTS_ON = {"worker", "flower"}
"""Their --help is answered by the program behind them."""


def imported_by(statement: str, **environment: str) -> set[str]:
    """Return the top-level names of the modules that a fresh interpreter has loaded after the statement."""
    program = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    env = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT, env=env
    )
    return set(done.stdout.split())


def muniment(*arguments: str) -> str:
    done = subprocess.run([SCRIPTS / "muniment", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def test_imports_point_one_way() -> None:
    checked = subprocess.run([SCRIPTS / "lint-imports"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert checked.returncode == 0, checked.stdout[-4000:]


def test_the_domain_imports_the_standard_library_only() -> None:
    foreign = {
        f"{path.name}: {name}"
        for path in (ROOT / "pipeline" / "domain").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or "."] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if not name.startswith("pipeline.domain") and name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == set()


def test_help_is_answered_without_anything_that_is_slow_to_import() -> None:
    load_all = "from pipeline.cli import cli\nfor name in cli.list_commands(None): cli.get_command(None, name)"
    assert imported_by("import pipeline.cli").isdisjoint(SLOW_TO_IMPORT)
    assert imported_by(load_all).isdisjoint(SLOW_TO_IMPORT)


def test_no_process_but_the_runner_loads_an_engine() -> None:
    entries = ("app", "tasks", "worker", "dispatcher", "launcher", "broker_check", "wiring", "supervisor")
    assert imported_by(f"import {', '.join(f'workers.{entry}' for entry in entries)}").isdisjoint(ENGINES)


def test_the_celery_application_can_be_imported_whatever_the_settings_are() -> None:
    assert "celery" in imported_by("import workers.app, workers.tasks", MUNIMENT_LIMITS__MAX_PAGES="none")


def test_help_lists_every_command() -> None:
    shown = muniment("--help").partition("Commands:")[2]
    assert [line.split()[0] for line in shown.splitlines() if line.strip()] == cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_every_command_says_what_it_does(name: str) -> None:
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    assert command.name == name
    if name not in PASS_THEIR_ARGUMENTS_ON:
        with click.Context(command, parent=context, info_name=name) as own:
            assert command.get_help(own).startswith("Usage: ")
    assert command.help


def test_the_command_line_offers_what_the_domain_knows() -> None:
    # Repeated there, since importing the domain's enums is not the point; compared here.
    assert list(jobs._STATES) == [state.value for state in JobState]
    assert list(jobs._EVENTS) == [event.value for event in WebhookEvent]
    assert list(webhooks._STATES) == [state.value for state in DeliveryState]
    assert list(options._FORMATS) == [form.value for form in OutputFormat]
    assert list(options._LANES) == [lane.value for lane in LanePolicy]


def test_the_published_schema_knows_every_error_code() -> None:
    assert set(document_schema()["$defs"]["error"]["properties"]["code"]["enum"]) == set(ErrorCode)


def test_the_rows_page_explains_every_error_code() -> None:
    page = (ROOT / "docs" / "rows.md").read_text()
    assert {code.value for code in ErrorCode if f"| `{code.value}` |" not in page} == set()
