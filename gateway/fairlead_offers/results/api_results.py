"""Makes the results of large answers of HTTP APIs in a worker process."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_mcp.errors import TooLarge
from fairlead_offers.job import ConvertedBody, Job
from fairlead_openapi.calling.answers import AnswerForm, result_of

API_RESULT: Final = Job[ConvertedBody | str]("api-result", str)
"""Answers with the result, or with the reason why it is too large."""
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(tuple[AnswerForm, int]).decode


def api_result_work(form: AnswerForm, body: bytes, max_bytes: int) -> list[bytes]:
    """Encode the input of `api_result` in pieces, so that a large body is not copied."""
    return [_encode((form, max_bytes)), b"\n", body]


def api_result(work: bytes) -> ConvertedBody | str:
    """Make the result of an answer, given by `api_result_work`."""
    end = work.index(b"\n")
    form, max_bytes = _decode(work[:end])
    try:
        result = bytes(result_of(form, work[end + 1 :]))
    except TooLarge as error:
        return str(error)
    return ConvertedBody([result]) if len(result) <= max_bytes else f"the result exceeds {max_bytes} bytes"
