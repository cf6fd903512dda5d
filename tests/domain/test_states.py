import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline.domain.states import BEGINS_AGAIN, CHUNK_MOVES, JOB_MOVES, STEP_OF, ChunkState, JobState, Step, chain_from
from tests.builders import STEADY

TABLES = [(JobState, JOB_MOVES), (ChunkState, CHUNK_MOVES)]
EVERY_STATE = [(state, moves) for states, moves in TABLES for state in states]
ENDS_WELL = {JobState.SUCCEEDED, JobState.PARTIAL}


def reachable(start, moves):
    found, frontier = {start}, {start}
    while frontier:
        frontier = set().union(*(moves[state] for state in frontier)) - found
        found |= frontier
    return found


@pytest.mark.parametrize(("states", "moves"), TABLES)
def test_the_table_has_every_state_and_no_other(states, moves):
    assert set(moves) == set(states)
    assert set().union(*moves.values()) <= set(states)


@pytest.mark.parametrize(("state", "moves"), EVERY_STATE)
def test_every_state_has_a_way_to_an_end(state, moves):
    assert any(end.is_terminal for end in reachable(state, moves))


@pytest.mark.parametrize(("states", "moves"), TABLES)
def test_every_state_is_reached_from_the_first(states, moves):
    assert reachable(next(iter(states)), moves) == set(states)


@pytest.mark.parametrize(("state", "moves"), EVERY_STATE)
def test_no_state_moves_to_itself(state, moves):
    assert state not in moves[state]


@pytest.mark.parametrize("state", JobState)
def test_a_job_waits_for_a_step_for_its_chunks_or_for_nothing(state):
    waits_for = [state in STEP_OF, state is JobState.RUNNING, state.is_terminal]
    assert waits_for.count(True) == 1


@pytest.mark.parametrize("state", [state for state in JobState if not state.is_terminal])
def test_a_job_can_fail_in_every_state_and_be_cancelled_until_it_is_delivered(state):
    assert JobState.FAILED in JOB_MOVES[state]
    assert (JobState.CANCELLED in JOB_MOVES[state]) == (state is not JobState.DELIVERING)


def test_a_document_is_only_rejected_before_it_is_recognised():
    assert {state for state in JobState if JobState.REJECTED in JOB_MOVES[state]} == {
        JobState.SUBMITTED,
        JobState.PLANNING,
    }


def test_only_a_running_chunk_ends_with_a_result_or_without_hope():
    for end in (ChunkState.DONE, ChunkState.SPLIT):
        assert [state for state in ChunkState if end in CHUNK_MOVES[state]] == [ChunkState.RUNNING]


def test_a_chunk_that_nobody_takes_may_be_given_up_from_wherever_it_waits():
    for state in ChunkState:
        assert state.is_terminal or ChunkState.DEAD in CHUNK_MOVES[state]


def test_only_what_has_ended_is_begun_again_and_nothing_that_was_rejected_goes_on_half_way():
    assert set(BEGINS_AGAIN) == {state for state in JobState if state.is_terminal}
    for beginnings in BEGINS_AGAIN.values():
        assert not any(beginning.is_terminal for beginning in beginnings)
        assert JobState.SUBMITTED in beginnings
    assert BEGINS_AGAIN[JobState.REJECTED] == {JobState.SUBMITTED}


def test_each_step_of_a_job_follows_from_the_one_before_it_in_the_chain():
    for state, step in STEP_OF.items():
        following = [STEP_OF[after] for after in JOB_MOVES[state] if after in STEP_OF]
        assert following == list(chain_from(step)[1:2])


@pytest.mark.parametrize("step", Step)
def test_every_step_stands_in_one_chain(step):
    assert chain_from(step)[0] is step


class DocumentMoves(RuleBasedStateMachine):
    """A job and its chunks, moved by whoever gets there first; a refused move is one that somebody else has made."""

    @initialize(count=st.integers(1, 4))
    def submitted(self, count):
        self.job = JobState.SUBMITTED
        self.job_ends = 0
        self.chunks = [ChunkState.READY] * count
        self.remaining = count

    @property
    def open_chunks(self):
        return [i for i, state in enumerate(self.chunks) if not state.is_terminal]

    def move_job(self, to):
        if to in JOB_MOVES[self.job]:
            self.job = to
            self.job_ends += to.is_terminal

    def move_chunk(self, index, to):
        """Move a chunk and count, in one transaction, the way adapters do."""
        if to not in CHUNK_MOVES[self.chunks[index]]:
            return
        self.chunks[index] = to
        if to is ChunkState.SPLIT:
            self.chunks += [ChunkState.READY, ChunkState.READY]
            self.remaining += 2
        self.remaining -= to.is_terminal
        if self.remaining == 0:
            self.move_job(JobState.MERGING)

    @rule(to=st.sampled_from([JobState.PLANNING, JobState.RUNNING, JobState.EXPORTING, JobState.DELIVERING]))
    def a_step_ends_or_its_message_comes_late(self, to):
        self.move_job(to)

    @rule(to=st.sampled_from([JobState.SUCCEEDED, JobState.PARTIAL, JobState.REJECTED, JobState.FAILED]))
    def a_step_ends_the_job(self, to):
        self.move_job(to)

    @rule()
    def a_person_cancels(self):
        self.move_job(JobState.CANCELLED)

    @precondition(lambda self: self.job is JobState.RUNNING)
    @rule(to=st.sampled_from(ChunkState), data=st.data())
    def a_chunk_moves(self, to, data):
        self.move_chunk(data.draw(st.integers(0, len(self.chunks) - 1)), to)

    @precondition(lambda self: self.job is JobState.RUNNING and len(self.chunks) < 20)
    @rule()
    def a_message_runs_a_chunk_to_its_end(self):
        for index in self.open_chunks[:1]:
            for to in (ChunkState.ADMITTED, ChunkState.RUNNING, ChunkState.DONE):
                self.move_chunk(index, to)

    @invariant()
    def the_job_ends_at_most_once(self):
        assert self.job_ends == self.job.is_terminal

    @invariant()
    def what_remains_is_counted(self):
        assert self.remaining == len(self.open_chunks)

    @invariant()
    def a_running_job_has_chunks_to_wait_for(self):
        assert self.job is not JobState.RUNNING or self.open_chunks

    @invariant()
    def a_document_ends_well_only_with_all_its_chunks(self):
        assert self.job not in ENDS_WELL | {JobState.MERGING} or not self.open_chunks

    def teardown(self):
        """From wherever it stands, the usual moves bring it to an end: nothing is stuck."""
        if not hasattr(self, "job"):
            return
        onward = [JobState.PLANNING, JobState.RUNNING, JobState.MERGING, JobState.EXPORTING, JobState.DELIVERING]
        for to in [*onward, JobState.SUCCEEDED]:
            while self.job is JobState.RUNNING:
                self.a_message_runs_a_chunk_to_its_end()
            self.move_job(to)
        assert self.job.is_terminal


DocumentMoves.TestCase.settings = settings(STEADY, max_examples=60, stateful_step_count=40)
TestDocumentMoves = DocumentMoves.TestCase
