import hashlib
import hmac
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.outbound import Trouble
from pipeline.domain.states import JobState
from pipeline.domain.webhooks import (
    UNLESS_ASKED_OTHERWISE,
    Again,
    DeliveryError,
    DeliveryState,
    Result,
    SigningKey,
    WebhookEvent,
    fate_of,
    new_signing_key,
    rest_of,
    signature,
)

jitters = st.floats(0, 1, exclude_max=True)


def result(status=None, error=DeliveryError.NOT_CONNECTED):
    return Result(status=status, error=error, elapsed_ms=5)


def test_events_are_named_after_the_states_of_a_job_and_its_ends_are_told_unless_asked_otherwise():
    states = [JobState(event.removeprefix("job.")) for event in WebhookEvent]
    assert [state for state in states if not state.is_terminal] == [JobState.RUNNING]
    assert {JobState(event.removeprefix("job.")) for event in UNLESS_ASKED_OTHERWISE} == {
        state for state in JobState if state.is_terminal
    }


def test_every_trouble_on_the_way_has_its_name_in_the_log():
    assert {DeliveryError(trouble.value) for trouble in Trouble} < set(DeliveryError)


def test_a_signature_is_that_of_the_time_and_the_body_by_every_key():
    keys = [SigningKey(key_id="b", secret="new"), SigningKey(key_id="a", secret="old")]
    macs = [hmac.new(secret, b"1700000000.{}", hashlib.sha256).hexdigest() for secret in (b"new", b"old")]
    assert signature(b"{}", at=1700000000, keys=keys) == f"t=1700000000,kid=b,v1={macs[0]},kid=a,v1={macs[1]}"


def test_secrets_are_never_the_same_and_do_not_show_themselves():
    made = {new_signing_key().secret for _ in range(100)}
    assert len(made) == 100
    key = new_signing_key()
    assert key.secret not in repr(key)


@given(st.integers(1, 1000), st.integers(1, 1000), jitters)
def test_what_was_answered_well_is_delivered_however_often_it_was_tried(tries, max_tries, jitter):
    answered = result(200, None)
    assert fate_of(answered, tries=tries, max_tries=max_tries, jitter=jitter) is DeliveryState.DELIVERED


@pytest.mark.parametrize("refused", [result(410, DeliveryError.STATUS), result(None, DeliveryError.NOT_ALLOWED)])
def test_some_answers_are_final(refused):
    assert fate_of(refused, tries=1, max_tries=16, jitter=0) is DeliveryState.DEAD


@given(st.sampled_from([result(), result(500, DeliveryError.STATUS)]), st.integers(1, 200), jitters)
def test_tries_are_bounded_and_so_are_the_pauses_between_them(failed, tries, jitter):
    fate = fate_of(failed, tries=tries, max_tries=16, jitter=jitter)
    if tries >= 16:
        assert fate is DeliveryState.DEAD
    else:
        assert isinstance(fate, Again)
        assert timedelta(seconds=5) <= fate.after <= timedelta(hours=1)


def test_pauses_grow():
    fates = [fate_of(result(), tries=tries, max_tries=99, jitter=0) for tries in range(1, 12)]
    pauses = [fate.after for fate in fates if isinstance(fate, Again)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (timedelta(seconds=5), timedelta(minutes=30))


@given(st.integers(0, 10_000), jitters)
def test_an_endpoint_rests_only_while_it_is_not_reached_and_for_minutes_at_most(failures, jitter):
    rest = rest_of(result(), failures=failures, jitter=jitter)
    assert rest is not None
    assert timedelta(seconds=1) <= rest <= timedelta(minutes=5)
    for reached in (result(500, DeliveryError.STATUS), result(200, None), result(None, DeliveryError.NOT_ALLOWED)):
        assert rest_of(reached, failures=failures, jitter=jitter) is None
