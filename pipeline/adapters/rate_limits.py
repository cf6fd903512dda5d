"""How many requests a caller may make, counted in Valkey or Redis so that all replicas of the API count together.

What is counted may be lost: a caller then begins with a full allowance, and no work is lost by it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import redis
import structlog

from pipeline.settings import BrokerSettings

log = structlog.get_logger()

# The generic cell rate algorithm (ITU-T I.371, appendix 1): one number a caller, the time at which all that was asked
# for will have been paid off, in microseconds of the server's clock. A minute's allowance may be taken at once.
_TAKE = """
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local cost = math.floor(60000000 / tonumber(ARGV[1]))
local paid_at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local taken = math.max(0, math.min(tonumber(ARGV[2]), math.floor((now + 60000000 - paid_at) / cost)))
if taken > 0 then
    paid_at = paid_at + taken * cost
    redis.call('SET', KEYS[1], string.format('%d', paid_at), 'PX', math.ceil((paid_at - now) / 1000))
end
return {taken, paid_at + cost - now - 60000000}
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests of one caller."""

    caller: str
    per_minute: int
    requests: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What a caller was given of what was asked for."""

    requests: int
    wait: timedelta
    """Until one more may be had."""


class RateLimits:
    """Counts requests. Safe to share between threads."""

    def __init__(self, settings: BrokerSettings) -> None:
        if settings.url is None:
            raise ValueError("broker.url is not set: start the embedded stack, or name a Valkey")
        self._redis = redis.Redis.from_url(
            settings.url.get_secret_value(), socket_timeout=1, socket_connect_timeout=1, max_connections=64
        )
        self._prefix = f"{settings.key_prefix}api-rate:"
        self._sha = hashlib.sha1(_TAKE.encode(), usedforsecurity=False).hexdigest()

    def take(self, asked: Sequence[Asked]) -> list[Taken]:
        """Count requests as far as their callers' rates allow; what each caller has got, in their order."""
        try:
            try:
                answers = self._run(asked)
            except redis.exceptions.NoScriptError:
                self._redis.script_load(_TAKE)
                answers = self._run(asked)
        except redis.RedisError as error:
            # Nobody is to be shut out because the counter is away; what was counted would be lost anyway.
            log.warning("rate_not_counted", detail=type(error).__name__)
            return [Taken(each.requests, timedelta(0)) for each in asked]
        return [Taken(int(taken), max(timedelta(0), timedelta(microseconds=int(us)))) for taken, us in answers]

    def _run(self, asked: Sequence[Asked]) -> list[tuple[int, int]]:
        with self._redis.pipeline(transaction=False) as pipe:
            for each in asked:
                pipe.evalsha(self._sha, 1, self._prefix + each.caller, each.per_minute, each.requests)
            return pipe.execute()

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()
