"""The schema is upgraded while jobs run: the present revision once more, and one that follows it."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import alembic.command
import alembic.config
import alembic.script
import psycopg
import pytest

from pipeline.adapters.database import MIGRATIONS, upgrade
from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually

REVISION = """
from alembic import op

revision = "of_a_test"
down_revision = "{head}"


def upgrade():
    # What takes locks: a column, a constraint that is checked over all rows, an index.
    op.execute("ALTER TABLE job ADD COLUMN of_a_test text")
    op.execute("ALTER TABLE chunk ADD CONSTRAINT of_a_test CHECK (attempt >= 0)")
    op.execute("CREATE INDEX of_a_test ON page (outcome)")
"""


def config(folder, url):
    made = alembic.config.Config()
    made.set_main_option("script_location", str(folder))
    made.attributes["url"] = url
    return made


@pytest.fixture
def following(tmp_path):
    """The folder of migrations with one that follows the newest."""
    folder = shutil.copytree(MIGRATIONS, tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    head = alembic.script.ScriptDirectory.from_config(config(folder, "")).get_current_head()
    (folder / "versions" / "of_a_test.py").write_text(REVISION.format(head=head))
    return folder


def test_jobs_run_on_while_the_schema_is_upgraded(system, following, tmp_path):
    url = system.settings.database.url.get_secret_value()
    system.simulate(page_ms=60)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 60))
    for pages in (5, 15):
        system.pages_done(job_id, pages)
        upgrade(url)
    system.pages_done(job_id, 25)
    alembic.command.upgrade(config(following, url), "head")
    assert not system.status(job_id).state.is_terminal
    assert system.rows.sql("SELECT of_a_test FROM job") == [(None,)]
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 60)
    assert set(system.attempts()) == {("done", None)}


def test_an_upgrade_never_deadlocks_with_a_worker_that_holds_what_it_comes_to_last(database_url, following):
    plain = database_url.replace("+psycopg", "")
    with (
        psycopg.connect(plain) as worker,
        psycopg.connect(plain, autocommit=True) as watcher,
        ThreadPoolExecutor() as upgrading,
    ):
        worker.execute("UPDATE page SET outcome = outcome")
        upgraded = upgrading.submit(alembic.command.upgrade, config(following, database_url), "head")
        eventually(lambda: watcher.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone())
        # What the upgrade has or waits for already.
        worker.execute("SELECT count(*) FROM job, chunk")
        worker.commit()
        upgraded.result(timeout=60)
        assert watcher.execute("SELECT count(of_a_test) FROM job").fetchone() == (0,)
