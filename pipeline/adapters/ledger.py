"""The pages of a job, as the ledger has them."""

from collections.abc import Iterator

from sqlalchemy import Engine, func, select, true

from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Page
from pipeline.domain.assembly import LedgerPage
from pipeline.domain.document import JobId
from pipeline.domain.recognition import PageOutcome

_ROWS_AT_ONCE = 500


class PostgresLedger:
    """Ledger over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def pages(self, job_id: JobId) -> Iterator[LedgerPage]:
        """Yield the ledger in page order, a few hundred rows at a time, each batch in a transaction of its own."""
        after = 0
        while True:
            statement = (
                select(Page)
                .where(Page.job_id == job_id, Page.number > after)
                .order_by(Page.number)
                .limit(_ROWS_AT_ONCE)
            )
            with transaction(self._engine) as connection:
                rows = connection.execute(statement).all()
            for row in rows:
                yield LedgerPage(
                    number=row.number,
                    outcome=PageOutcome(row.outcome) if row.outcome else None,
                    segment_key=row.segment_key,
                    chunk_id=row.chunk_id,
                    attempt=row.attempt,
                    error_code=row.error_code,
                    error_detail=row.error_detail,
                    source_file=row.source_file,
                )
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1].number

    def outcomes(self, job_id: JobId) -> dict[PageOutcome, int]:
        """Count the finished pages by outcome."""
        statement = (
            select(Page.outcome, func.count())
            .where(Page.job_id == job_id, Page.outcome.is_not(None))
            .group_by(Page.outcome)
        )
        with transaction(self._engine) as connection:
            return {PageOutcome(str(outcome)): count for outcome, count in connection.execute(statement)}

    def flags(self, job_id: JobId) -> dict[str, int]:
        """Count the pages by flag, in the order of their names."""
        flag = func.jsonb_array_elements(Page.flags).table_valued("value").lateral()
        name = flag.c.value.op("->>")("name")
        statement = (
            select(name, func.count(Page.number.distinct()))
            .select_from(Page)
            .join(flag, true())
            .where(Page.job_id == job_id)
            .group_by(name)
            .order_by(name)
        )
        with transaction(self._engine) as connection:
            return {str(name): count for name, count in connection.execute(statement)}
