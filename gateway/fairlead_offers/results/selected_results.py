"""Selects parts of large results in a worker process, as JMESPath runs in pure Python."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_offers.job import Job
from fairlead_tools.selection import ResultSelection, select

SELECT: Final = Job[bytes]("select", bytes)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[ResultSelection, bytes]).decode


def selection_work(selection: ResultSelection, result: bytes) -> bytes:
    """Encode the input of `select_part`."""
    return _encode((selection, result))


def select_part(work: bytes) -> bytes:
    """Select the part of a result, given by `selection_work`."""
    selection, result = _decode(work)
    return select(selection, result)
