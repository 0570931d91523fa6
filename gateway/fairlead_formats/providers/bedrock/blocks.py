"""Content blocks of Converse: which calls the gateway hides, and which reasoning only one model accepts. Pure module.

A block has one member, whose name tells its kind. Blocks come from clients and models and are not trusted. A round is
one request to the model. A client receives the blocks of all rounds in one message, but the model accepts signed
reasoning only in the message of its own answer. So the gateway gives the reasoning of rounds after the first
`FOREIGN_SIGNATURE`, and leaves out reasoning with that signature when the client returns it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import items, member, text_of, truncates

TOOL_USE: Final = "toolUse"
TOOL_RESULT: Final = "toolResult"
REASONING: Final = "reasoningContent"
SERVER_TOOL_USE: Final = "server_tool_use"
FOREIGN_SIGNATURE: Final = "fairlead.0."
"""Signature of reasoning that clients receive, and that the gateway does not send to providers."""
MALFORMED: Final = frozenset({"malformed_tool_use", "malformed_model_output"})
"""Stop reasons of an answer with an unreadable call."""
_encode: Final = msgspec.json.Encoder().encode

Block = dict[str, Any]


def blocks_of(content: object) -> list[Block]:
    """The blocks of a message's content, without entries that are not objects."""
    return [block for block in items(content) if isinstance(block, dict)]


def call_in(block: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The call of a block; None for other blocks and for calls of tools that the provider runs."""
    use = block.get(TOOL_USE)
    return use if isinstance(use, dict) and use.get("type") != SERVER_TOOL_USE else None


def is_hidden(block: Mapping[str, Any], client_tools: Collection[str] | None) -> bool:
    """Whether a block is a call that the gateway runs and the client does not receive: a call of a tool that is not in
    `client_tools`. None: the client receives all calls.
    """
    call = call_in(block)
    return client_tools is not None and call is not None and text_of(call.get("name")) not in client_tools


def is_blank(block: Mapping[str, Any]) -> bool:
    """Whether a block is text of white space only. Models write such text, and the API refuses it in requests."""
    text = block.get("text")
    return isinstance(text, str) and not text.strip()


def as_foreign(block: Block) -> Block | None:
    """A block of reasoning, signed with `FOREIGN_SIGNATURE`; None without readable text, as in encrypted reasoning."""
    text = member(member(block, REASONING), "reasoningText")
    if not isinstance(text, dict):
        return None
    return {REASONING: {"reasoningText": {**text, "signature": FOREIGN_SIGNATURE}}}


def is_foreign_reasoning(block: Mapping[str, Any]) -> bool:
    """Whether a block is reasoning with `FOREIGN_SIGNATURE`, which the gateway does not send to providers."""
    signature: object = member(member(member(block, REASONING), "reasoningText"), "signature")
    return signature == FOREIGN_SIGNATURE


def message_of(blocks: Iterable[Block], stop_reason: str) -> dict[str, Any]:
    """The assistant's message, without calls that may be truncated."""
    is_complete = not truncates(stop_reason)
    return {"role": "assistant", "content": [block for block in blocks if is_complete or call_in(block) is None]}


def as_request(role: str, blocks: Sequence[Block]) -> list[bytes]:
    """The request message with these blocks, in a list; an empty list if no block can be sent."""
    sendable = [block for block in blocks if not is_blank(block)]
    return [_encode({"role": role, "content": sendable})] if sendable else []


def without_calls(blocks: Iterable[Block]) -> list[Block]:
    """The blocks with calls and results written as text, for requests without tools, in which the API refuses calls.

    Reasoning is left out: it was signed for the calls that are text now.
    """
    written_blocks: list[Block] = []
    for block in blocks:
        use, result = block.get(TOOL_USE), block.get(TOOL_RESULT)
        if use is not None:
            arguments = _encode(member(use, "input")).decode()
            written_blocks.append({"text": f"[call of {text_of(member(use, 'name'))} with {arguments}]"})
        elif result is not None:
            outcome = "error" if member(result, "status") == "error" else "result"
            written_blocks.append({"text": f"[{outcome} of a call]"})
            written_blocks += [_result_as_block(part) for part in blocks_of(member(result, "content"))]
        elif REASONING not in block:
            written_blocks.append(block)
    return written_blocks


def _result_as_block(part: Block) -> Block:
    return {"text": _encode(part["json"]).decode()} if "json" in part else part
