"""What can go wrong with the embedded stack; each message says what to do."""


class StackError(Exception):
    """The embedded stack can't do what was asked."""


class HomeInUse(StackError):
    """Another supervisor owns this home."""


class ServerMissing(StackError):
    """A server program is neither installed with the package nor found on the machine."""


class ProcessFailed(StackError):
    """A process of the stack ended or hung before it was ready."""

    def __init__(self, name: str, what: str, log_tail: str) -> None:
        super().__init__(f"{name} {what}; the end of its log:\n{log_tail or '(empty)'}")
        self.name = name
        self.what = what
        self.log_tail = log_tail
