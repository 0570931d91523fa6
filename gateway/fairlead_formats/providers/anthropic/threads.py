"""Refusal of Anthropic's message threads, which the gateway does not support. Pure module.

A thread is a conversation that the provider stores under the id of an answer, with the tools of the first request. An
answer of the gateway consists of several answers of the provider, and the tools may change in between, so a thread that
the provider stores would lack messages. The refusal does no harm: the API itself may delete threads, so clients keep
the whole conversation and send it again when a thread is not found.

Source: Anthropic's guide "Message threads" (beta `message-threads-2026-08-12`).
"""

from __future__ import annotations

from typing import Final

from fairlead_formats.messages.call import member
from fairlead_formats.providers.anthropic.errors import THREAD_NOT_FOUND
from fairlead_formats.wire.protocol import BadRequest

THREAD: Final = "thread"
"""Member of a request that creates or continues a thread."""


def refuse_continuation(thread: object) -> None:
    """Raise BadRequest (404) if the request member `thread` continues a thread."""
    if member(thread, "type") == "continue":
        raise BadRequest(
            f"the gateway stores no message threads, and cannot continue {member(thread, 'previous_message_id')!r}: "
            'send the whole conversation, as for `"thread": {"type": "create"}`',
            THREAD,
            status=404,
            code=THREAD_NOT_FOUND,
        )
