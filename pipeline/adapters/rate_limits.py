"""How many requests a caller may make, counted in Valkey or Redis so that all replicas of the API count together.

What is counted may be lost: a caller then begins with a full allowance, and no work is lost by it.
"""

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
        self._take = self._redis.register_script(_TAKE)

    def take(self, caller: str, per_minute: int) -> timedelta:
        """Count a request; return zero where it may pass, else how long to wait for the next."""
        try:
            wait_us = int(self._take(keys=[self._prefix + caller], args=[per_minute]))
        except redis.RedisError as error:
            # Nobody is to be shut out because the counter is away; what was counted would be lost anyway.
            log.warning("rate_not_counted", detail=type(error).__name__)
            return timedelta(0)
        return timedelta(microseconds=wait_us)

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()
