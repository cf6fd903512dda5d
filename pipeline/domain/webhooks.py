"""Webhooks: what callers are told, how it is signed, and what follows an attempt to tell them."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus


class WebhookEvent(StrEnum):
    """What a caller may ask to be told of: a job has come to that state."""

    RUNNING = "job.running"
    """Its pages are known."""
    SUCCEEDED = "job.succeeded"
    PARTIAL = "job.partial"
    REJECTED = "job.rejected"
    FAILED = "job.failed"
    CANCELLED = "job.cancelled"


UNLESS_ASKED_OTHERWISE = tuple(event for event in WebhookEvent if event is not WebhookEvent.RUNNING)
"""The ends of a job."""


class DeliveryState(StrEnum):
    """Whether somebody has been told."""

    DUE = "due"
    """To be sent at `next_at`, or on its way."""
    DELIVERED = "delivered"
    """The endpoint has answered with 2xx."""
    DEAD = "dead"
    """Given up; people may replay it."""


class DeliveryError(StrEnum):
    """Why an attempt did not deliver. Stable: it stands in the log of deliveries."""

    STATUS = "status"
    """The endpoint's answer was not 2xx; redirects are not followed."""
    NAME_UNKNOWN = "name_unknown"
    NOT_CONNECTED = "not_connected"
    TLS_FAILED = "tls_failed"
    TIMED_OUT = "timed_out"
    CUT_SHORT = "cut_short"
    NOT_ALLOWED = "not_allowed"
    """The settings forbid this URL, or the address behind its name."""
    LOST = "lost"
    """Whoever sent it died; the endpoint may have got it."""
    TOO_OLD = "too_old"
    """It could not be sent for so long that nobody will want it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """What a tenant's deliveries are signed with."""

    key_id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one attempt."""

    status: int | None
    """Of the answer, if one came."""
    error: DeliveryError | None
    elapsed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """It is due again after a while."""

    after: timedelta


Fate = DeliveryState | Again

_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(hours=1)
_FIRST_REST = timedelta(seconds=2)
_LONGEST_REST = timedelta(minutes=5)
_MOST_DOUBLINGS = 16
_SIGNATURE_VERSION = "v1"


def new_signing_key() -> SigningKey:
    """Make a key out of 256 random bits."""
    return SigningKey(key_id=secrets.token_hex(4), secret=f"whsec_{secrets.token_hex(32)}")


def signature(body: bytes, *, at: int, keys: Sequence[SigningKey]) -> str:
    """Return the header that proves who sent a body, and when: one signature for each key that is good now.

    HMAC-SHA256 (RFC 2104) over the time, a full stop and the body. Args: at is in seconds since 1970.
    """
    signed = str(at).encode() + b"." + body
    parts = [f"t={at}"]
    for key in keys:
        mac = hmac.new(key.secret.encode(), signed, hashlib.sha256).hexdigest()
        parts += [f"kid={key.key_id}", f"{_SIGNATURE_VERSION}={mac}"]
    return ",".join(parts)


def fate_of(result: Result, *, tries: int, max_tries: int, jitter: float) -> Fate:
    """Return what becomes of a delivery after an attempt.

    Args: tries counts the attempts so far, this one included; jitter is random in [0, 1).
    """
    if result.error is None:
        return DeliveryState.DELIVERED
    if result.error is DeliveryError.NOT_ALLOWED or result.status == HTTPStatus.GONE or tries >= max_tries:
        return DeliveryState.DEAD
    return Again(after=_doubled(_FIRST_PAUSE, tries, _LONGEST_PAUSE, jitter))


def rest_of(result: Result, *, failures: int, jitter: float) -> timedelta | None:
    """Return how long nothing more is sent to an endpoint that can't be reached; None where it can.

    So all that waits for an endpoint which is away costs one attempt at a time, and those few.

    Args: failures counts how often it was not reached in a row before.
    """
    if result.status is not None or result.error is DeliveryError.NOT_ALLOWED:
        return None
    return _doubled(_FIRST_REST, failures, _LONGEST_REST, jitter)


def _doubled(first: timedelta, count: int, longest: timedelta, jitter: float) -> timedelta:
    """Return a pause that doubles with the count, half of it left to chance."""
    ceiling: timedelta = min(longest, first * 2 ** min(count, _MOST_DOUBLINGS))
    return ceiling * (1 + jitter) / 2
