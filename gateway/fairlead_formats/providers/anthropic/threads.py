"""Message threads of Anthropic's Messages, which the gateway does not keep. Pure module.

A provider stores a thread under the id of one of its answers, with the tools of its first request. An answer of the
gateway has the rounds of several, and its tools may change, so that a thread of the provider's lacks messages. The API
keeps threads at its discretion: clients hold the whole conversation, and send it again when a thread is not found.

Source: Anthropic's guide "Message threads" (beta `message-threads-2026-08-12`).
"""

from __future__ import annotations

from typing import Final

from fairlead_formats.messages.call import member
from fairlead_formats.providers.anthropic.errors import THREAD_NOT_FOUND
from fairlead_formats.wire.protocol import BadRequest

THREAD: Final = "thread"
"""Member of a request that creates a thread, or continues one."""


def refuse_continuation(thread: object) -> None:
    """Raise BadRequest (404) for the value of a request that continues a thread."""
    if member(thread, "type") == "continue":
        raise BadRequest(
            f"the gateway stores no message threads, and cannot continue {member(thread, 'previous_message_id')!r}: "
            'send the whole conversation, as for `"thread": {"type": "create"}`',
            THREAD,
            status=404,
            code=THREAD_NOT_FOUND,
        )
