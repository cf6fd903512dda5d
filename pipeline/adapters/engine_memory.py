"""What has been learnt of the memory that engines take, for all workers to start from."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Engine, select
from sqlalchemy.dialects.postgresql import insert

from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import EngineMemory
from pipeline.domain.batches import BatchBound, Misfit
from pipeline.domain.document import PageClass


class PostgresEngineMemory:
    """LearntMemory over Postgres."""

    def __init__(self, engine: Engine, *, keep_bounds: timedelta) -> None:
        self._engine = engine
        self._keep_bounds = keep_bounds

    def bound(self, engine: str, revision: str, device: str, page_class: PageClass) -> BatchBound | None:
        """Return what sufficed when memory last ran out, if that was not long ago."""
        of = Misfit(engine=engine, revision=revision, device=device, page_class=page_class)
        statement = select(EngineMemory.pages, EngineMemory.pixels, EngineMemory.page_pixels).where(
            *_of(of), EngineMemory.lowered_at > NOW - self._keep_bounds
        )
        with transaction(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        return row and BatchBound(pages=row.pages, pixels=row.pixels, page_pixels=row.page_pixels)

    def other_engine(self, misfit: Misfit) -> str | None:
        """Return what read such pages when this engine had no memory for one, if that was not long ago."""
        statement = select(EngineMemory.other_engine).where(
            *_of(misfit), EngineMemory.other_at > NOW - self._keep_bounds
        )
        with transaction(self._engine) as connection:
            found: str | None = connection.execute(statement).scalar_one_or_none()
        return found

    def learn_other_engine(self, misfit: Misfit, other: str) -> None:
        """Keep what has read such a page."""
        self._write(misfit, {"other_engine": other, "other_at": NOW})

    def correction(self, engine: str) -> float:
        """Return how much more an engine takes than was planned, by what was measured last; 1 if nothing was."""
        statement = (
            select(EngineMemory.correction)
            .where(EngineMemory.engine == engine, EngineMemory.correction.is_not(None))
            .order_by(EngineMemory.updated_at.desc())
            .limit(1)
        )
        with transaction(self._engine) as connection:
            found = connection.execute(statement).scalar()
        return 1.0 if found is None else float(found)

    def learn(
        self,
        engine: str,
        revision: str,
        device: str,
        page_class: PageClass,
        *,
        lowered: BatchBound | None,
        correction: float | None,
    ) -> None:
        """Keep what sufficed, if memory ran out, and the correction, if something was measured."""
        bound = (
            {}
            if lowered is None
            else {
                "pages": lowered.pages,
                "pixels": lowered.pixels,
                "page_pixels": lowered.page_pixels,
                "lowered_at": NOW,
            }
        )
        of = Misfit(engine=engine, revision=revision, device=device, page_class=page_class)
        self._write(of, bound | ({} if correction is None else {"correction": correction}))

    def _write(self, of: Misfit, values: dict[str, Any]) -> None:
        changed = values | {"updated_at": NOW}
        key = asdict(of)
        statement = insert(EngineMemory).values(**key, **changed)
        with transaction(self._engine) as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=[*key], set_=changed))


def _of(misfit: Misfit) -> list[ColumnElement[bool]]:
    return [getattr(EngineMemory, name) == value for name, value in asdict(misfit).items()]
