"""How a document that needs a password is refused, in the same words for every kind of file."""

from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.password import Password


def refused(what: str, password: Password | None) -> Rejected:
    """Return the refusal of a protected file: none was given, or the one that was given doesn't open it."""
    if password is None:
        return Rejected(
            ErrorCode.PASSWORD_REQUIRED,
            f"The {what} is encrypted and asks for a password: give it with the job (--password-file),"
            " or send a copy without one.",
        )
    return Rejected(
        ErrorCode.PASSWORD_WRONG,
        f"The {what} is encrypted, and the password that was given does not open it: try again with another.",
    )
