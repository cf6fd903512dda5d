"""What opens a protected document: kept beside the job while that is open, and shown nowhere."""

from dataclasses import dataclass

MAX_CHARACTERS = 1000
"""The table allows no more; PDF 2.0 (ISO 32000-2, 7.6.4.3.3) uses the first 127 bytes."""


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A password that doesn't show itself: whoever prints or logs it, or what holds it, gets the name of the class.

    Raises: ValueError, if it is empty, too long, or holds a NUL character, at which readers in C would cut it off.
    """

    reveal: str

    def __post_init__(self) -> None:
        if not 1 <= len(self.reveal) <= MAX_CHARACTERS or "\0" in self.reveal:
            raise ValueError(f"a password has 1 to {MAX_CHARACTERS} characters, none of them NUL")
