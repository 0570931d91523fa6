"""Jobs that another process may run, and the frames by which jobs and answers are exchanged.

A frame with a job has four bytes of length, the job's name, a newline and the work. A frame with an answer has four
bytes of length and one of: `+` and the answer as JSON, `=` and a `ConvertedBody`, or `-` and the reason of a failure.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

Answer = TypeVar("Answer")

LENGTH: Final = struct.Struct(">I")
BULK: Final = "--bulk"
"""Command-line argument of a worker process that runs with the lowest priority."""


class Job(Generic[Answer]):
    """Function of bytes that a worker process runs, identified by a name. `answers`: type to which its answer is
    decoded.
    """

    __slots__ = ("answers", "name")

    def __init__(self, name: str, answers: Any) -> None:
        self.name = name
        self.answers = answers


class ConvertedBody(msgspec.Struct, frozen=True):
    """Body of an answer in the bytes that are sent to the client."""

    parts: Sequence[bytes | memoryview]
