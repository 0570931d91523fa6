"""Converts whole JSON documents, which some providers send although a stream was requested, to events of a stream.

Some servers that imitate a provider's API send such documents, at least for requests with tools. The rest of the
gateway and the client see no difference from a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_formats.wire.protocol import JSON, BadAnswer, WireFormat
from fairlead_llm.loop import ToolLoop
from fairlead_mcp.read_bounds import explain_excess, is_long
from fairlead_mcp.sse import EventParser
from fairlead_models.provider_requests import ProviderAnswer
from fairlead_offers.workers.heavy_work import HeavyWork

_EVENT_BEGINNINGS: Final = (b"data:", b"event:", b":")
"""Beginnings of server-sent events, with which JSON cannot begin."""


class ReceivedStream(msgspec.Struct, frozen=True):
    """The provider's answer to a request for a stream."""

    answer: ProviderAnswer
    events: Sequence[bytes] | None = None
    """Data of the events for a document, which has been read whole; None for a stream, which is read as it arrives."""


async def read_document(answer: ProviderAnswer, loop: ToolLoop, work: HeavyWork) -> Sequence[bytes]:
    """Data of the events for the document in an answer. Raises BadAnswer, ProviderUnavailable."""
    body = await answer.read_whole()
    loop.long |= is_long(body)
    return await work.process_document(
        lambda: document_events(body, answer.content_type, loop.prepared_request.wire), long=loop.long
    )


def document_events(body: bytes, content_type: str, wire: WireFormat) -> Sequence[bytes]:
    """Data of the events for a document. The body may also consist of events, which some servers send with a content
    type that is not for streams. Raises BadAnswer.
    """
    excess = explain_excess(body) if is_long(body) else None
    if excess is not None:
        raise BadAnswer(f"the provider's answer holds {excess}")
    if body.lstrip().startswith(_EVENT_BEGINNINGS):
        return [event.data for event in EventParser(len(body)).feed(body)]
    if content_type != JSON and not content_type.endswith("+json"):
        raise BadAnswer(
            f"the provider answered a request for a stream with {content_type[:64]!r}: check the provider's `baseUrl`"
        )
    return wire.whole_events(body)
