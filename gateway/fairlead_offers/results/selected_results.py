"""Selects parts of large results in a worker process, as JMESPath runs in pure Python."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_offers.job import ConvertedBody, Job
from fairlead_tools.selection import ResultSelection, select

SELECT: Final = Job[ConvertedBody]("select", ConvertedBody)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(ResultSelection).decode


def selection_work(selection: ResultSelection, result: bytes) -> list[bytes]:
    """Encode the input of `select_part` in pieces, so that a large result is not copied."""
    return [_encode(selection), b"\n", result]


def select_part(work: bytes) -> ConvertedBody:
    """Select the part of a result, given by `selection_work`."""
    end = work.index(b"\n")
    return ConvertedBody([select(_decode(work[:end]), work[end + 1 :])])
