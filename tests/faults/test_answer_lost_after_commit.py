"""The database commits, and its answer is lost with the connection: whoever wrote does not know that it did."""

import pytest
from sqlalchemy.engine import make_url

from pipeline.domain.states import JobState
from tests.faults.proxy import Rule
from tests.system import scan

WRITES = {
    "ingested": b"media_type=",
    "planned": b"INSERT INTO page",
    "chunk claimed": b"INSERT INTO chunk_attempt",
    "pages recorded": b"UPDATE page SET",
    "chunk finished": b"SET chunks_remaining",
    "merged": b"document_key=",
    "exported": b"result_keys=",
    "ended": b"finished_at=",
}


class LosesAnswers(Rule):
    """Once for each write: cuts the connection when the server has answered the commit of its transaction."""

    def __init__(self):
        self.left = dict(WRITES)
        self._written = {}
        self._committing = set()

    def said(self, link, piece):
        for name, statement in self.left.items():
            if statement in piece:
                self._written[link] = name
        if b"COMMIT\0" in piece and self.left.pop(self._written.pop(link, None), None):
            self._committing.add(link)
        super().said(link, piece)

    def answered(self, link, piece):
        if link in self._committing:
            link.cut()
        else:
            super().answered(link, piece)


@pytest.fixture
def rule(way_to_the_database):
    way_to_the_database.rule = LosesAnswers()
    return way_to_the_database.rule


def test_what_was_committed_and_not_heard_of_is_neither_lost_nor_done_twice(
    system, tmp_path, way_to_the_database, rule
):
    url = make_url(system.environment["MUNIMENT_DATABASE__URL"]).set(port=way_to_the_database.port)
    system.environment["MUNIMENT_DATABASE__URL"] = url.render_as_string(hide_password=False)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 30))
    status = system.finished(job_id)
    assert (status.state, status.outcomes) == (JobState.SUCCEEDED, {"recognised": 30})
    system.assert_whole(job_id, 30)
    assert rule.left == {}
    # Only a claim that nobody knows of is given up, when its lease is over.
    assert sorted(set(system.attempts())) == [("done", None), ("lost", "lease_expired")]
    assert system.attempts().count(("lost", "lease_expired")) == 1
