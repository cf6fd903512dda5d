"""Says how a drill went: a table for people, one object for programs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pipeline.chaos.record import Record
from pipeline.chaos.recovery import Felt, felt_by_kind
from pipeline.chaos.schedule import FaultKind, Schedule
from pipeline.chaos.surroundings import SHORT_TIMES
from pipeline.chaos.verdict import Verdict

_SHOWN_FINDINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A drill and its verdict."""

    seed: int
    schedule: Schedule
    record: Record
    verdict: Verdict

    @property
    def is_clean(self) -> bool:
        """Whether all four numbers are 0."""
        return not any(self.counts.values())

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the four numbers that have to be 0."""
        verdict = self.verdict
        return {
            "lost pages": len(verdict.lost),
            "doubled pages": len(verdict.doubled),
            "stuck rows": len(verdict.stuck),
            "overlaps": len(verdict.overlaps),
        }

    @property
    def felt(self) -> Mapping[FaultKind, Felt]:
        """Return what each kind of fault cost."""
        return felt_by_kind(self.record.injected, self.record.rows, self.record.samples)

    @property
    def attempts(self) -> Mapping[str, int]:
        """Count the attempts at chunks by how they ended, and why."""
        causes = Counter(
            f"{attempt.outcome or 'open'} {attempt.error_code or ''}".strip() for attempt in self.record.rows.attempts
        )
        return dict(causes.most_common())

    @property
    def jobs(self) -> Mapping[str, int]:
        """Count the jobs by state."""
        return dict(Counter(str(job.state) for job in self.record.rows.jobs).most_common())

    def as_json(self) -> dict[str, Any]:
        """Return it for programs; times in seconds."""
        return {
            "seed": self.seed,
            "documents": len(self.schedule.documents),
            "pages": self.schedule.page_count,
            "seconds": round(self.record.took.total_seconds(), 1),
            "settings": dict(SHORT_TIMES),
            "jobs": self.jobs,
            "faults": {
                str(kind): {
                    "struck": felt.struck,
                    "recovered": felt.recovered,
                    "p50_s": _seconds(felt.p50),
                    "p95_s": _seconds(felt.p95),
                    "max_s": _seconds(felt.longest),
                }
                for kind, felt in self.felt.items()
            },
            "faults_left_out": list(self.record.left_out),
            "attempts": self.attempts,
            **{name.replace(" ", "_"): count for name, count in self.counts.items()},
            "findings": list(self._findings()),
        }

    def as_text(self) -> str:
        """Return it for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        record, documents = self.record, len(self.schedule.documents)
        yield (
            f"seed {self.seed}: {documents} documents, {self.schedule.page_count} pages,"
            f" {len(record.injected)} faults, {record.took.total_seconds():.0f} s"
        )
        settings = (name.removeprefix("MUNIMENT_").lower().replace("__", ".") for name in SHORT_TIMES)
        shown = (f"{name}={value}" for name, value in zip(settings, SHORT_TIMES.values(), strict=True))
        yield "times set for the drill, in seconds: " + ", ".join(shown)
        yield "documents: " + _pairs(self.jobs)
        yield ""
        yield f"{'fault':20} {'struck':>7} {'seen over':>10} {'P50 s':>7} {'P95 s':>7} {'max s':>7}"
        for kind, felt in self.felt.items():
            times = " ".join(f"{_shown(time):>7}" for time in (felt.p50, felt.p95, felt.longest))
            yield f"{kind:20} {felt.struck:>7} {felt.recovered:>10} {times}"
        if self.record.left_out:
            yield "left out, because all documents had ended: " + ", ".join(self.record.left_out)
        yield ""
        yield "attempts at chunks: " + _pairs(self.attempts)
        yield ""
        yield from (f"{name:14} {count:>5}" for name, count in self.counts.items())
        findings = list(self._findings())
        yield from (f"    {finding}" for finding in findings[:_SHOWN_FINDINGS])
        if len(findings) > _SHOWN_FINDINGS:
            yield f"    and {len(findings) - _SHOWN_FINDINGS} more: --json has all"

    def _findings(self) -> Iterator[str]:
        verdict = self.verdict
        for name, found in (
            ("lost", verdict.lost),
            ("doubled", verdict.doubled),
            ("stuck", verdict.stuck),
            ("overlap", verdict.overlaps),
        ):
            yield from (f"{name}: {finding}" for finding in found)


def _pairs(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else round(time.total_seconds(), 2)


def _shown(time: timedelta | None) -> str:
    return "-" if time is None else f"{time.total_seconds():.1f}"
