"""A login in the role `muniment_submitter` hands in documents and sees what becomes of its own; it can do no more."""

import secrets
from collections.abc import Callable, Iterable, Iterator

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Composed, Identifier, Placeholder
from sqlalchemy.engine import make_url

from pipeline.adapters.tables import Base
from tests.migrations.conftest import plain

GRANTED = {
    "source_uri": "s3://box/1.pdf",
    "source_name": "a ledger",
    "options": '{"lane": "cpu"}',
    "priority": 5,
    "idempotency_key": "box-1",
    "label": "box-17",
    "hours": "20:00-06:00 Asia/Shanghai",
    "callback_url": "https://museum.test/hooks?of=us",
    "callback_events": '["job.succeeded", "job.partial"]',
    "deadline": "2999-01-01T00:00:00Z",
}
COLUMNS = {name: [column.name for column in table.columns] for name, table in Base.metadata.tables.items()}
GIVE = "INSERT INTO job_secret (job_id, password) VALUES (%s, %s)"
SUBMIT = "INSERT INTO job (source_uri) VALUES ('s3://box/1.pdf') RETURNING id"

Login = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def log_in(database_url: str, owner: psycopg.Connection) -> Iterator[Callable[[], Login]]:
    """Make a login of the role, as docs/rows.md tells people to, and connect as it; each is gone at the end."""
    made: list[Login] = []

    def connect() -> Login:
        name, password = f"submitter_{secrets.token_hex(6)}", secrets.token_hex(6)
        create = SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE muniment_submitter")
        owner.execute(create.format(Identifier(name), password))
        url = make_url(plain(database_url)).set(username=name, password=password)
        made.append(psycopg.connect(url.render_as_string(hide_password=False), autocommit=True))
        return made[-1]

    yield connect
    for connection in made:
        name = connection.info.user
        connection.close()
        owner.execute(SQL("DROP ROLE {}").format(Identifier(name)))


@pytest.fixture
def submitter(log_in: Callable[[], Login]) -> Login:
    return log_in()


def allowed(login: Login, statements: Iterable[Composed]) -> list[str]:
    """Return those of the statements that are not refused for want of a right."""
    found = []
    for statement in statements:
        try:
            with login.transaction(force_rollback=True):
                login.execute(statement)
        except InsufficientPrivilege:
            continue
        except psycopg.Error as error:
            found.append(f"{statement.as_string(login)}: {error}")
        else:
            found.append(statement.as_string(login))
    return found


def test_a_source_is_a_whole_submission_under_the_name_of_the_login(submitter: Login) -> None:
    submitter.execute(SUBMIT)
    assert submitter.execute("SELECT tenant, source_name, state FROM job").fetchall() == [
        (submitter.info.user, "1.pdf", "submitted")
    ]
    assert submitter.execute("SELECT kind FROM event").fetchall() == [("job.submitted",)]


def test_every_documented_column_may_be_given(submitter: Login) -> None:
    statement = SQL("INSERT INTO job ({}) VALUES ({}) RETURNING source_name, priority, options").format(
        SQL(", ").join(map(Identifier, GRANTED)), SQL(", ").join(map(Placeholder, GRANTED))
    )
    assert submitter.execute(statement, GRANTED).fetchone() == ("a ledger", 5, {"lane": "cpu"})


def test_no_other_column_may_be_given(submitter: Login) -> None:
    others = [column for column in COLUMNS["job"] if column not in GRANTED]
    assert {"id", "tenant", "state", "upload_key", "paused", "result_keys"} < set(others)
    # The column's own default would do, so that nothing but the right is missing.
    insert = SQL("INSERT INTO job (source_uri, {}) VALUES ('s3://box/1.pdf', DEFAULT)")
    assert allowed(submitter, [insert.format(Identifier(column)) for column in others]) == []


def test_the_same_idempotency_key_again_inserts_nothing(submitter: Login) -> None:
    again = """
        INSERT INTO job (source_uri, idempotency_key) VALUES ('s3://box/1.pdf', 'box-1')
        ON CONFLICT (tenant, idempotency_key) DO NOTHING RETURNING id
    """
    assert len(submitter.execute(again).fetchall()) == 1
    assert submitter.execute(again).fetchall() == []
    assert submitter.execute("SELECT count(*) FROM job").fetchone() == (1,)


def test_tenants_do_not_see_each_other(log_in: Callable[[], Login], owner: psycopg.Connection) -> None:
    tenants = [log_in(), log_in()]
    owner.execute(SUBMIT)
    for tenant in tenants:
        # The same key for both: it is unique for each tenant alone.
        submit = "INSERT INTO job (source_uri, idempotency_key) VALUES ('s3://box/1.pdf', 'box-1') RETURNING id"
        (job,) = tenant.execute(submit).fetchone() or ()
        owner.execute("INSERT INTO page (job_id, number, class) VALUES (%s, 1, 'scan')", [job])
    counted = "SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM page), (SELECT count(*) FROM event)"
    assert owner.execute(counted).fetchone() == (3, 2, 3)
    for tenant in tenants:
        assert tenant.execute(counted).fetchone() == (1, 1, 1)
        assert tenant.execute("SELECT tenant FROM job").fetchone() == (tenant.info.user,)


def test_only_jobs_batches_pages_and_events_can_be_read(submitter: Login) -> None:
    reads = [SQL("SELECT * FROM {}").format(Identifier(table)) for table in sorted(COLUMNS)]
    assert allowed(submitter, reads) == [
        'SELECT * FROM "batch"',
        'SELECT * FROM "event"',
        'SELECT * FROM "job"',
        'SELECT * FROM "page"',
    ]


def test_nothing_can_be_changed(submitter: Login) -> None:
    submitter.execute(SUBMIT)
    changes = [
        SQL("UPDATE {} SET {} = DEFAULT").format(Identifier(table), Identifier(column))
        for table, columns in COLUMNS.items()
        for column in columns
    ]
    assert allowed(submitter, changes) == []


@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {} CASCADE", "DROP TABLE {} CASCADE"])
def test_nothing_can_be_removed(submitter: Login, statement: str) -> None:
    submitter.execute(SUBMIT)
    assert allowed(submitter, [SQL(statement).format(Identifier(table)) for table in COLUMNS]) == []


def test_nothing_but_jobs_and_their_passwords_can_be_added(submitter: Login) -> None:
    others = COLUMNS.keys() - {"job", "job_secret"}
    adds = [SQL("INSERT INTO {} DEFAULT VALUES").format(Identifier(table)) for table in others]
    assert allowed(submitter, [*adds, Composed([SQL("CREATE TABLE mine (id int)")])]) == []


def test_a_password_can_be_given_to_a_job_of_ones_own_and_read_by_nobody_else(
    log_in: Callable[[], Login], owner: psycopg.Connection
) -> None:
    mine, other = log_in(), log_in()
    with mine.transaction():
        [job_id] = mine.execute(SUBMIT).fetchone() or ()
        mine.execute(GIVE, (job_id, "open sesame"))
    assert owner.execute("SELECT job_id, password FROM job_secret").fetchall() == [(job_id, "open sesame")]
    for login in (mine, other):
        with pytest.raises(InsufficientPrivilege):
            login.execute("SELECT password FROM job_secret")
        with pytest.raises(InsufficientPrivilege):
            login.execute("UPDATE job_secret SET password = 'another'")
    owner.execute("DELETE FROM job_secret")
    with pytest.raises(InsufficientPrivilege):
        other.execute(GIVE, (job_id, "open sesame"))


def test_whoever_takes_on_the_role_itself_is_a_tenant_of_that_name(submitter: Login) -> None:
    submitter.execute(SUBMIT)
    submitter.execute("SET ROLE muniment_submitter")
    assert submitter.execute("SELECT count(*) FROM job").fetchone() == (0,)
    submitter.execute(SUBMIT)
    assert submitter.execute("SELECT tenant FROM job").fetchall() == [("muniment_submitter",)]
