"""Checks the broker's settings that would break the rules, and says what to do: `python -m workers.broker_check`."""

import sys
from urllib.parse import urlsplit

import redis

from pipeline.settings import Settings, SettingsError, read_settings
from pipeline.starting import ExitCode, Unfit
from workers.app import configuration

_OLDEST = (6, 2)
_SCHEMES = ("redis", "rediss", "redis+socket", "unix")


def check_broker(settings: Settings) -> None:
    """Make sure that the broker answers and keeps what it is given. Raises: SettingsError, Unfit."""
    url: str = configuration(settings)["broker_url"]
    where = urlsplit(url)
    if where.scheme not in _SCHEMES:
        raise SettingsError(
            f"broker.url: {where.scheme}:// is not supported, use a Valkey or Redis server (redis://). With others a"
            " worker can't be kept from fetching a second chunk while it reads the first"
        )
    try:
        check(url, settings.broker.key_prefix)
    except SettingsError as error:
        place = f" ({where.hostname}:{where.port or 6379}{where.path})" if where.hostname else ""
        raise Unfit(ExitCode.BROKER, f"{error}{place}") from error


def check(url: str, prefix: str) -> str:
    """Return what the broker is. Raises: SettingsError, naming the setting, what it is and what it should be."""
    client = redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=3)
    try:
        information = client.info()
        policy = client.config_get("maxmemory-policy").get("maxmemory-policy")
    except redis.exceptions.RedisError as error:
        raise SettingsError(
            f"broker.url: no answer ({type(error).__name__}): is the server up, the password right?"
        ) from error
    finally:
        client.close()
    number = tuple(int(part) for part in information["redis_version"].split(".")[:2])
    if number < _OLDEST:
        raise SettingsError(f"broker: version {information['redis_version']} is too old, 6.2 is the oldest that works")
    if policy and policy != "noeviction":
        raise SettingsError(f"broker: maxmemory-policy is {policy}, which may drop queues: set it to noeviction")
    name = information.get("server_name", "redis")
    return f"{name} (speaks redis {information['redis_version']}), noeviction, keys under {prefix}"


def main() -> int:
    """Check the broker that the settings name."""
    try:
        settings = read_settings()
        url: str = configuration(settings)["broker_url"]
        sys.stdout.write(check(url, settings.broker.key_prefix) + "\n")
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
