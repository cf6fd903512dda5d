"""What the documentation says is so: settings, commands, states, codes and columns are compared with the code."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import click
import psycopg
import pytest
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from pipeline.adapters.tables import Base
from pipeline.api.application import ADMINISTRATORS, CALLERS
from pipeline.api.problems import ApiCode
from pipeline.cli import cli
from pipeline.domain import keys
from pipeline.domain.api_keys import Scope
from pipeline.domain.document import ChunkId, JobId
from pipeline.domain.profiles import Profile
from pipeline.domain.states import CHUNK_MOVES, JOB_MOVES, JobState
from pipeline.schemas import document_schema
from pipeline.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])


OPTIONS_OF_OTHERS = {
    "test": set(),
    "flower": {"--port"},
    "worker": {"--queues", "--name", "--concurrency", "--device", "--help"},
}
"""Of commands that pass their arguments on."""


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def table_rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of every table row of a page, heads and rules included."""
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def fields(model: type[BaseModel], *above: str) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Yield the path and description of every setting."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, *above, name)
        else:
            yield (*above, name), field


SETTINGS = {".".join(path): field for path, field in fields(Settings)}
SETTING_ROWS = [row for row in table_rows(page("docs/settings.md")) if re.fullmatch(r"`\w+\.\w+`", row[0])]


def shown(default: object) -> str:
    match default:
        case timedelta():
            return f"`{default.total_seconds():.10g}`"
        case bool():
            return f"`{str(default).lower()}`"
        case SecretStr() | "":
            return "empty"
        case None:
            return "not set"
        case _:
            return f"`{default}`"


def test_every_setting_is_described_once() -> None:
    assert Counter(row[0].strip("`") for row in SETTING_ROWS) == Counter(SETTINGS.keys())


def test_every_setting_is_given_with_its_variable() -> None:
    expected = {name: "MUNIMENT_" + name.replace(".", "__").upper() for name in SETTINGS}
    assert {row[0].strip("`"): row[1].strip("`") for row in SETTING_ROWS} == expected


def test_every_default_is_the_one_that_holds() -> None:
    said = {row[0].strip("`"): row[2] for row in SETTING_ROWS}
    # Lists, paths and what follows from the machine are said in words.
    in_words = {name for name, field in SETTINGS.items() if field.default_factory or isinstance(field.default, tuple)}
    in_words.add("devices.cpu_slots")
    assert {name: said[name] for name in SETTINGS if name not in in_words} == {
        name: shown(field.default) for name, field in SETTINGS.items() if name not in in_words
    }
    assert not [name for name in in_words if "`" in said[name].replace("`locks`", "").replace("`muniment-UID`", "")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (path.parent / target).exists()] == []


def test_every_column_of_the_public_tables_is_explained() -> None:
    explained = {name for row in table_rows(page("docs/rows.md")) for name in re.findall(r"`(\w+)`", row[0])}
    columns = {
        column.name
        for table in ("job", "job_secret", "page", "event")
        for column in Base.metadata.tables[table].columns
    }
    assert columns - explained == set()


def test_the_columns_that_a_submitter_gives_are_those_that_are_granted(database_url: str) -> None:
    section = page("docs/rows.md").partition("## Columns that a submitter gives")[2].partition("`options` is")[0]
    given = {row[0].strip("`") for row in table_rows(section)} - {"column", "---"}
    with psycopg.connect(database_url.replace("+psycopg", "")) as owner:
        granted = owner.execute(
            "SELECT column_name FROM information_schema.column_privileges"
            " WHERE grantee = 'muniment_submitter' AND privilege_type = 'INSERT' AND table_name = 'job'"
        )
        assert given == {name for (name,) in granted}


def test_the_grants_to_run_by_hand_are_those_of_the_migrations(database_url: str) -> None:
    grants = re.search(r"<!-- grants[^>]*-->\n```sql\n(.*?)```", page("docs/rows.md"), re.DOTALL)
    assert grants
    rights = """
        SELECT 'policy', tablename, policyname, cmd, roles::text, qual, with_check FROM pg_policies
        UNION ALL
        SELECT 'table', relname, relacl::text, NULL, NULL, NULL, NULL FROM pg_class
        WHERE relname IN ('job', 'page', 'event')
        UNION ALL
        SELECT 'column', attrelid::regclass::text, attname, attacl::text, NULL, NULL, NULL FROM pg_attribute
        WHERE attacl IS NOT NULL AND attrelid IN ('job'::regclass, 'job_secret'::regclass)
    """
    with psycopg.connect(database_url.replace("+psycopg", "")) as owner:
        before = set(owner.execute(rights).fetchall())
        assert len(before) > 10
        owner.execute("DROP OWNED BY muniment_submitter")
        assert not set(owner.execute(rights).fetchall()) & {row for row in before if row[0] != "table"}
        owner.execute(grants[1])
        assert set(owner.execute(rights).fetchall()) == before


def test_every_field_of_the_output_is_explained() -> None:
    explained = set(re.findall(r"`(\w+)`", page("docs/output.md")))
    schema = document_schema()
    objects = [schema, schema["properties"]["source"], *schema["$defs"].values()]
    fields_ = {name for part in objects for name in part.get("properties", ())}
    assert fields_ - explained == set()


def test_every_flag_is_explained() -> None:
    section = page("docs/output.md").partition("### Flags")[2].partition("\n## ")[0]
    explained = {row[0].strip("`") for row in table_rows(section)} - {"flag", "---"}
    code = [path.read_text() for folder in ("pipeline", "workers") for path in (ROOT / folder).rglob("*.py")]
    assert explained == {name for text in code for name in re.findall(r'Flag\(name="(\w+)"', text)}


def test_every_key_of_the_store_is_explained() -> None:
    job, chunk = JobId(UUID(int=1)), ChunkId(UUID(int=2))
    made = [
        keys.original("ab" + "0" * 62),
        keys.segment(job, chunk, 1, 0),
        keys.rendered_page(job, chunk, 7, None, Profile.FAST),
        keys.page_image(job, 7, 150),
        keys.bound_pages(job, 1),
        keys.result(job, 1, "document.json"),
        keys.upload(UUID(int=3)),
    ]
    documented = [row[0].strip("`") for row in table_rows(page("docs/output.md")) if "/" in row[0]]
    patterns = [re.sub(r"<[^>]+>|\*", "[^/]+", pattern) for pattern in documented]
    matches = [[pattern for pattern in patterns if re.fullmatch(pattern, key)] for key in made]
    assert sorted(matches) == sorted([pattern] for pattern in patterns)


def test_every_route_and_every_code_of_the_api_is_explained() -> None:
    text = page("docs/api.md")
    codes = {row[0].strip("`") for row in table_rows(text.partition("## Errors")[2])} - {"code", "---"}
    assert codes == {code.value for code in ApiCode}
    routes = {route.path.replace(":path", "") for router in (*CALLERS, *ADMINISTRATORS) for route in router.routes}
    told = {path.replace("...", "") for path in re.findall(r"(?:GET|POST|PATCH|DELETE|PUT) (/[^`\s]+)", text)}
    acts = set(re.findall(r"`\.\.\.(/\w+)`", text))
    assert {path for path in routes if not (path in told or (path[path.rindex("/") :] in acts))} == set()
    assert {f"`{scope}`" for scope in Scope} <= {row[0] for row in table_rows(text)}


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("name", ["README.md", "docs/rows.md", "docs/operations.md"])
def test_the_sql_that_is_shown_runs(database_url: str, name: str) -> None:
    statements = [
        part for block in code_blocks(page(name), "sql") for part in re.split(r"(?<=;)\n", block) if part.strip()
    ]
    assert statements
    with psycopg.connect(database_url.replace("+psycopg", "")) as owner:
        for statement in statements:
            # What is there already, after a migration that was allowed everything.
            if not statement.startswith(("CREATE ROLE muniment_submitter", "CREATE POLICY")):
                owner.execute(statement.replace("...", "'01a22c65-e2e8-7868-904a-fb28fe5d8a4f'"))
        owner.rollback()


def shown_commands() -> list[tuple[str, list[str]]]:
    """Return every command of ours that a page shows, with its options."""
    texts = [path.read_text(encoding="utf-8") for path in PAGES]
    spans = [span for text in texts for span in re.findall(r"`([^`\n]+)`", text)]
    lines = [line for text in texts for block in code_blocks(text, "sh") for line in block.splitlines()]
    found = [re.match(r"\s*(?:muniment|python3 run\.py) ([a-z]+)\b([^#]*)", shown) for shown in spans + lines]
    return [(words[1], re.findall(r"--[\w-]+", words[2])) for words in found if words]


def known_options(name: str) -> set[str]:
    """Return a command's options. Raises: KeyError, if there is no such command."""
    if name in OPTIONS_OF_OTHERS:
        return OPTIONS_OF_OTHERS[name]
    command = cli.get_command(click.Context(cli), name)
    if command is None:
        raise KeyError(name)
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    parameters = [parameter for each in (command, *inner) for parameter in each.params]
    return {option for parameter in parameters for option in parameter.opts} | {"--help"}


def test_the_commands_that_are_shown_exist() -> None:
    commands = shown_commands()
    assert len(commands) > 30
    assert [(name, given) for name, given in commands if set(given) - known_options(name)] == []


def states_in_the_readme(kind: str) -> dict[str, set[str]]:
    """Return the states of jobs or chunks, and the states that each is said to move to."""
    table = page("README.md").partition(f"\n| {kind} is |")[2].partition("\n\n")[0]
    rows_ = [row for row in table_rows("\n" + table) if row[0].startswith("`")]
    return {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) - {"not_before"} for row in rows_}


def test_the_readme_gives_every_state_of_a_job_and_where_it_leads() -> None:
    told = states_in_the_readme("job")
    assert list(told) == [state.value for state in JobState]
    for state, moves in JOB_MOVES.items():
        if not state.is_terminal:
            # Those two are said once, in their own rows, for all states above them.
            assert told[state] | ({JobState.FAILED, JobState.CANCELLED} & moves) == moves, state
    ended_by_hand = {state for state, moves in JOB_MOVES.items() if JobState.CANCELLED in moves}
    assert ended_by_hand == {state for state in JobState if not state.is_terminal} - {JobState.DELIVERING}


def test_the_readme_gives_every_state_of_a_chunk_and_where_it_leads() -> None:
    assert states_in_the_readme("chunk") == {state.value: set(moves) for state, moves in CHUNK_MOVES.items()}


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    contracts = tomllib.loads(page("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    told = page("docs/architecture.md").partition("## What may import what")[2].partition(". ")[0]
    assert re.findall(r"`([\w.]+)`", told) == [name for layer in layers for name in layer.split(" | ")]


def test_the_readme_stays_readable() -> None:
    assert len(page("README.md").splitlines()) < 250


def test_every_file_that_a_page_names_is_there() -> None:
    folders = "pipeline|workers|steps|adapters|domain|commands|samples|tests"
    named = {name for path in PAGES for name in re.findall(rf"`((?:{folders})/[\w./-]*)`", path.read_text())}
    below = (ROOT, ROOT / "pipeline")
    assert {name for name in named if not any((folder / name).exists() for folder in below)} == set()
