"""How many requests a caller may make, counted in Valkey or Redis so that all replicas of the API count together.

What is counted may be lost: a caller then begins with a full allowance, and no work is lost by it.
"""

import hashlib
from collections.abc import Sequence
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
local paid_at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + cost
local wait = paid_at - now - 60000000
if wait > 0 then
    return wait
end
redis.call('SET', KEYS[1], string.format('%d', paid_at), 'PX', math.ceil((paid_at - now) / 1000))
return 0
"""


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

    def take(self, asked: Sequence[tuple[str, int]]) -> list[timedelta]:
        """Count requests, each of a caller with its rate a minute; return how long each has to wait, zero to pass."""
        try:
            try:
                waits = self._run(asked)
            except redis.exceptions.NoScriptError:
                self._redis.script_load(_TAKE)
                waits = self._run(asked)
        except redis.RedisError as error:
            # Nobody is to be shut out because the counter is away; what was counted would be lost anyway.
            log.warning("rate_not_counted", detail=type(error).__name__)
            return [timedelta(0)] * len(asked)
        return [timedelta(microseconds=int(wait_us)) for wait_us in waits]

    def _run(self, asked: Sequence[tuple[str, int]]) -> list[int]:
        with self._redis.pipeline(transaction=False) as pipe:
            for caller, per_minute in asked:
                pipe.evalsha(self._sha, 1, self._prefix + caller, per_minute)
            return pipe.execute()

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()
