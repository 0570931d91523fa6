"""Errors of an author's own tools."""

from __future__ import annotations


class BadTool(ValueError):
    """A tool that cannot be published; the message says why, without the tool's name."""


class UnfitArguments(ValueError):
    """Arguments that a handler does not take; the message is for the model and quotes no value."""


class Unusable(TypeError):
    """A handler returned what cannot be told to a model."""


class HandlerFailed(Exception):
    """A handler raised `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause
