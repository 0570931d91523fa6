"""Jobs that another process may do, and the frames in which they go there.

A frame is four bytes of length, then the job's name, a newline and the work. Back comes a length and one of: `+` and
the answer as JSON, `=` and a `ConvertedBody`, or `-` and why there is no answer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

Answer = TypeVar("Answer")

LENGTH: Final = struct.Struct(">I")
BULK: Final = "--bulk"
"""Argument of a process whose work gives way to everything else."""


class Job(Generic[Answer]):
    """A function from bytes, by a name that both sides know. `answers` is the type that its answer is decoded as."""

    __slots__ = ("answers", "name")

    def __init__(self, name: str, answers: Any) -> None:
        self.name = name
        self.answers = answers


class ConvertedBody(msgspec.Struct, frozen=True):
    """The body of an answer, as it goes to the client."""

    parts: Sequence[bytes | memoryview]
