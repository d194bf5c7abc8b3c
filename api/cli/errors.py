"""The error a command raises to end with one sentence and an exit code."""


class CliError(Exception):
    """A foreseeable failure: the message says what is wrong and what to do."""

    def __init__(self, message: str, *, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
