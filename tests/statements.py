"""What is asked of the database, and how it goes about answering."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event


@contextmanager
def recorded(engine: Engine) -> Iterator[dict[str, Any]]:
    """Collect every statement that is run, each once, with values that it was run with."""
    statements: dict[str, Any] = {}

    def note(*arguments: Any) -> None:
        _, _, statement, values, _, many = arguments
        statements.setdefault(statement, values[0] if many else values)

    event.listen(engine, "before_cursor_execute", note)
    yield statements
    event.remove(engine, "before_cursor_execute", note)


def plans(engine: Engine, statements: Mapping[str, Any], *, under: str = "") -> Iterator[tuple[str, str]]:
    """Yield each statement that reads, and how it would be run.

    Args: under are statements of SET that hold meanwhile.
    """
    with engine.connect() as connection:
        cursor = connection.connection.cursor()
        if under:
            cursor.execute(under)
        for statement, values in statements.items():
            if statement.split()[0] in ("SELECT", "UPDATE", "WITH"):
                cursor.execute("EXPLAIN (COSTS OFF) " + statement, values)
                yield statement, "\n".join(row[0] for row in cursor.fetchall())
