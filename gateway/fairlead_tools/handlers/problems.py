"""Errors of custom tools."""

from __future__ import annotations


class BadTool(ValueError):
    """A custom tool cannot be published. The message says why, without the tool's name."""


class UnfitArguments(ValueError):
    """The arguments do not match the handler's parameters. The message is for the model and quotes no values."""


class Unusable(TypeError):
    """A handler returned a value that cannot be converted to a result."""


class HandlerFailed(Exception):
    """A handler raised the exception `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause
