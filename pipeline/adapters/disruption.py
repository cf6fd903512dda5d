"""What a drill does to servers by their own means: cut connections, forget everything."""

from urllib.parse import urlsplit

import redis
from sqlalchemy import Engine, text

from pipeline.adapters.database import transaction
from pipeline.domain.errors import ErrorCode, Transient

_WITHIN_S = 1.0


class Disruption:
    """Of the broker and the database of a drill; never to be pointed at others."""

    def __init__(self, broker_url: str, engine: Engine) -> None:
        if urlsplit(broker_url).hostname != "127.0.0.1":
            raise ValueError("drills are for servers of their own")
        self._broker_url = broker_url
        self._engine = engine

    def flush_broker(self) -> None:
        """Remove all keys. Raises: Transient."""
        self._tell("FLUSHALL")

    def cut_broker(self) -> None:
        """Close the connections of all clients. Raises: Transient."""
        self._tell("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self._tell("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")

    def stop_persistence(self) -> None:
        """Have the broker write nothing down any more, until it is started again. Raises: Transient."""
        self._tell("CONFIG", "SET", "appendonly", "no")

    def cut_database(self) -> None:
        """Close all connections but our own. Raises: Transient."""
        with transaction(self._engine) as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )

    def _tell(self, *command: str) -> None:
        client = redis.Redis.from_url(self._broker_url, socket_timeout=_WITHIN_S, socket_connect_timeout=_WITHIN_S)
        try:
            client.execute_command(*command)  # type: ignore[no-untyped-call]
        except redis.RedisError as error:
            raise Transient(
                ErrorCode.BROKER_UNAVAILABLE, f"no answer from the broker: {type(error).__name__}"
            ) from error
        finally:
            client.close()
