"""How commands are given the password of documents: by a file or a prompt.

Never as an argument or in the environment: other users of the host may see the one, and child processes inherit the
other.
"""

from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pipeline.domain.password import Password

Command = TypeVar("Command", bound=Callable[..., Any])
_MOST_CHARACTERS = 5000


def password_options(command: Command) -> Command:
    """Add the options to a command, which makes a password of them by way of `given_password`."""
    for option in (
        click.option(
            "--password-file",
            type=click.File(encoding="utf-8-sig"),
            help="File whose one line opens the documents that are protected; - is standard input.",
        ),
        click.option("--ask-password", is_flag=True, help="Ask for that password on the terminal."),
    ):
        command = option(command)
    return command


def given_password(*, password_file: IO[str] | None, ask_password: bool) -> "Password | None":
    """Return the password, if one was given. Raises: click.UsageError."""
    if password_file and ask_password:
        raise click.UsageError("give the password by a file or at the prompt, not both")
    if password_file:
        return _parsed(_only_line(password_file))
    if ask_password:
        return _parsed(click.prompt("Password of the documents", hide_input=True, err=True))
    return None


def _only_line(file: IO[str]) -> str:
    try:
        line, *others = file.read(_MOST_CHARACTERS).removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise click.UsageError(f"{file.name} is not UTF-8 text") from None
    if others:
        raise click.UsageError(f"{file.name} has more than one line: which one is the password?")
    return line


def _parsed(value: str) -> "Password":
    from pipeline.domain.password import Password

    try:
        return Password(value)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
