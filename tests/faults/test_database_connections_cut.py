"""pg_terminate_backend: every connection of the product is cut, again and again."""

import psycopg

from pipeline.domain.states import JobState
from tests.system import scan


def test_connections_to_the_database_that_are_cut_are_made_again(system, tmp_path):
    system.simulate(page_ms=60)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 30))
    url = system.settings.database.url.get_secret_value().replace("+psycopg", "")
    for pages in (4, 12, 20):
        system.pages_done(job_id, pages)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name LIKE 'muniment%'"
            )
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 30)
