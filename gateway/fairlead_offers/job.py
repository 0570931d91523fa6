"""Jobs that another process may run, and the frames by which jobs and answers are exchanged.

A frame with a job has four bytes of length, the job's name, a newline, and the bytes for the job's function. A frame
with an answer has four bytes of length, and then `+` and the answer as JSON, `=` and a `ConvertedBody`, or `-` and the
reason of a failure.
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
    """Job that a worker process runs: the name of a function that takes bytes. `answer_type`: type to which the gateway
    decodes the function's answer.
    """

    __slots__ = ("answer_type", "name")

    def __init__(self, name: str, answer_type: Any) -> None:
        self.name = name
        self.answer_type = answer_type


class ConvertedBody(msgspec.Struct, frozen=True):
    """Encoded body of an HTTP response, which the gateway sends to the client without decoding it."""

    parts: Sequence[bytes | memoryview]
