"""What can go wrong, in three branches by what to do next, each with a code that never changes its meaning."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Stable codes, written on rows and shown to users; add, never rename."""

    # The document's fault: final, the user can act.
    INVALID_OPTIONS = "invalid_options"
    SOURCE_NOT_ALLOWED = "source_not_allowed"
    SOURCE_NOT_FOUND = "source_not_found"
    FILE_TOO_LARGE = "file_too_large"
    EMPTY_FILE = "empty_file"
    NOT_A_DOCUMENT = "not_a_document"
    UNSUPPORTED_TYPE = "unsupported_type"
    DAMAGED = "damaged"
    PASSWORD_REQUIRED = "password_required"  # noqa: S105 - a code, not a secret
    PASSWORD_WRONG = "password_wrong"  # noqa: S105 - likewise
    ZERO_PAGES = "zero_pages"
    TOO_MANY_PAGES = "too_many_pages"
    PAGE_TOO_LARGE = "page_too_large"
    DECOMPRESSION_BOMB = "decompression_bomb"
    DOES_NOT_FIT = "does_not_fit"
    # Nobody's fault: there is no room for it now.
    QUEUE_FULL = "queue_full"
    # One page's fault: that page ends as failed, its document goes on.
    PAGE_DAMAGED = "page_damaged"
    ENGINE_FAILED = "engine_failed"
    # The engine's process: the chunk is tried again, then taken apart.
    PROCESS_DIED = "process_died"
    STALLED = "stalled"
    OUT_OF_MEMORY = "out_of_memory"
    DEVICE_BROKEN = "device_broken"
    # The infrastructure: try again later.
    LEASE_EXPIRED = "lease_expired"
    STORE_UNAVAILABLE = "store_unavailable"
    DATABASE_UNAVAILABLE = "database_unavailable"
    BROKER_UNAVAILABLE = "broker_unavailable"
    ENGINE_UNAVAILABLE = "engine_unavailable"
    SOURCE_UNAVAILABLE = "source_unavailable"
    # How a job may end that nobody meant to.
    CANCELLED = "cancelled"
    DEADLINE_PASSED = "deadline_passed"
    NO_PROGRESS = "no_progress"
    TOO_MANY_ATTEMPTS = "too_many_attempts"
    SOME_PAGES_FAILED = "some_pages_failed"
    ALL_PAGES_FAILED = "all_pages_failed"
    LEDGER_BROKEN = "ledger_broken"
    INTERNAL = "internal"


class PipelineError(Exception):
    """Something went wrong that has a code. The message says what, with which id or value, and what to do."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Rejected(PipelineError):
    """The document can't be taken as it is; trying again changes nothing."""


class Transient(PipelineError):
    """A service or a device failed; the same work may succeed later."""


class RecognitionFailed(PipelineError):
    """One page can't be rendered or read; the rest of its document can."""


class StaleMove(Exception):
    """Another attempt holds the row, or it has moved on. Not a failure: stop quietly, write nothing."""
