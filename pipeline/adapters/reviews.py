"""Flagged pages over Postgres, by the index that has them worst first."""

from typing import Any

from sqlalchemy import ColumnElement, Engine, Row, Select, and_, cast, func, or_, select, text
from sqlalchemy.dialects.postgresql import JSONB

from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Job, Page
from pipeline.domain.document import JobId
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.serialisation import flag_from_json
from pipeline.ports.review import FlaggedPage, Place, ReviewFilter

_IS_FLAGGED = text("page.flags <> '[]'::jsonb")
"""Word for word as in the index."""


class PostgresReview:
    """Review over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def pages(self, limit: int, wanted: ReviewFilter) -> list[FlaggedPage]:
        """Return the worst first; of those as bad, the pages of the newest jobs first, in order."""
        with transaction(self._engine) as connection:
            return [_flagged(row) for row in connection.execute(_statement(limit, wanted))]


def _statement(limit: int, wanted: ReviewFilter) -> Select[Any]:
    doubt = func.muniment_doubt(Page.flags, *([wanted.flag] if wanted.flag else []))
    return (
        select(
            Page.job_id,
            Job.tenant,
            Job.label,
            Job.source_name,
            Page.number,
            Page.source_file,
            Page.outcome,
            Page.confidence,
            Page.flags,
            doubt.label("doubt"),
        )
        .join(Job, Job.id == Page.job_id)
        .where(_IS_FLAGGED, Page.outcome.is_not(None), *_conditions(doubt, wanted))
        .order_by(doubt.desc(), Page.job_id.desc(), Page.number)
        .limit(limit)
    )


def _conditions(doubt: ColumnElement[float], wanted: ReviewFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.tenant is not None:
        conditions.append(Job.tenant == wanted.tenant)
    if wanted.job_id is not None:
        conditions.append(Page.job_id == wanted.job_id)
    if wanted.label is not None:
        conditions.append(Job.label == wanted.label)
    if wanted.flag is not None:
        conditions.append(cast(Page.flags, JSONB).contains([{"name": wanted.flag}]))
    if wanted.min_doubt > 0:
        conditions.append(doubt >= wanted.min_doubt)
    if wanted.since is not None:
        conditions.append(Job.created_at >= wanted.since)
    if wanted.after is not None:
        conditions.append(_is_behind(doubt, wanted.after))
    return conditions


def _is_behind(doubt: ColumnElement[float], place: Place) -> ColumnElement[bool]:
    in_job = and_(Page.job_id == place.job_id, Page.number > place.number)
    as_bad = and_(doubt == place.doubt, or_(Page.job_id < place.job_id, in_job))
    # The first part follows from the second, and lets the index begin there.
    return and_(doubt <= place.doubt, or_(doubt < place.doubt, as_bad))


def _flagged(row: Row[Any]) -> FlaggedPage:
    return FlaggedPage(
        job_id=JobId(row.job_id),
        tenant=row.tenant,
        label=row.label,
        source_name=row.source_name,
        number=row.number,
        source_file=row.source_file,
        outcome=PageOutcome(row.outcome),
        confidence=row.confidence,
        flags=tuple(flag_from_json(flag) for flag in row.flags),
        doubt=row.doubt,
    )
