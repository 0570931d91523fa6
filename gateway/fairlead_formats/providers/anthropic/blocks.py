"""Content blocks of Anthropic Messages: which calls the gateway hides, and which round a thinking block belongs to.

Pure module. Blocks come from clients and models and are not trusted. A round is one request to the model. A client
receives the blocks of all rounds in one message and returns them in one message, but the API accepts a thinking block
only in the message that first contained it. So from the second round on, the gateway puts the round's number in front
of each signature, as a prefix that ends in a point, and removes the prefix before a block goes to the provider. Base64
has no point, so the prefix can be told from the signature. The prefix also has 128 random bits, the key under which the
gateway stores the turn: the provider's signature would be a poor key, as another client might guess it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import truncates
from fairlead_formats.wire.protocol import SIGNED_REASONING, CallKey, InnerCall

TOOL_USE: Final = "tool_use"
SIGNED: Final[Mapping[str, str]] = {"thinking": "signature", "redacted_thinking": "data"}
"""Maps types of thinking blocks to the member that clients must return unchanged."""
MARK: Final = "fairlead."
"""Beginning of the prefix that the gateway puts in front of signatures."""
FOREIGN_SIGNATURE: Final = "fairlead.0."
"""Signature of reasoning by another family's model. Clients see that reasoning; providers do not."""
_MARK_PATTERN: Final = re.compile(r"fairlead\.([0-9]{1,4})\.(?:([0-9a-f]{32})\.)?")
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode


class Block(msgspec.Struct, frozen=True):
    """One content block: its JSON (`raw`) and its decoded `members`."""

    raw: bytes | Raw
    members: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.members.get("type", ""))

    @property
    def signature(self) -> str:
        """Signature of a thinking block; empty for other blocks."""
        value = self.members.get(SIGNED.get(self.kind, ""))
        return value if isinstance(value, str) else ""

    @property
    def round(self) -> int:
        """Number of the round in the prefix of the signature; 1 without a prefix."""
        match = _MARK_PATTERN.match(self.signature)
        return 1 if match is None else int(match[1])

    @property
    def is_foreign_reasoning(self) -> bool:
        """Whether the block is reasoning of another family's model."""
        return self.signature == FOREIGN_SIGNATURE

    def unwrap(self, call: InnerCall) -> Block:
        """This block of a call of `execute_tool`, rewritten to the call that its arguments name."""
        raws: dict[str, Any] = dict(_members(self.raw))
        return block_of(_encode({**raws, "name": call.name, "input": Raw(call.arguments)}))

    def sign(self, signature: str) -> Block:
        """The thinking block with another signature."""
        raws = _members(self.raw)
        raws[SIGNED[self.kind]] = Raw(_encode(signature))
        return block_of(_encode(raws))

    def mark(self, number: int, mark: str) -> Block:
        """The client's form of a thinking block of round `number`; other blocks are unchanged."""
        return self.sign(mark_signature(self.signature, number, mark)) if number > 1 and self.signature else self

    def unmark(self) -> Block:
        """The provider's form of a thinking block; other blocks are unchanged."""
        match = _MARK_PATTERN.match(self.signature)
        return self if match is None else self.sign(self.signature[match.end() :])


def block_of(raw: bytes | Raw) -> Block:
    """Decode a block. Raises msgspec.MsgspecError, UnicodeDecodeError, RecursionError."""
    value = _decode(raw)
    return Block(raw, value if isinstance(value, dict) else {})


def blocks_of(content: bytes | Raw) -> list[Block]:
    """The blocks of a message's content, which may be text. Raises what `block_of` raises."""
    if bytes(content[:1]) == b'"':
        text = _decode(content)
        return [block_of(_encode({"type": "text", "text": text}))] if text else []
    return [block_of(raw) for raw in _raws(content)]


def tool_name(block: Mapping[str, Any]) -> str:
    """Name of the tool that a call belongs to: the toolset's name if the call has one, else the call's own name."""
    for member in ("toolset_name", "name"):
        if isinstance(block.get(member), str):
            return str(block[member])
    return ""


def is_hidden(block: Mapping[str, Any], client_tools: Collection[str] | None) -> bool:
    """Whether a block is a call that the gateway runs and the client does not receive: a call of a tool that is not in
    `client_tools`. None: the client receives all calls.
    """
    return client_tools is not None and block.get("type") == TOOL_USE and tool_name(block) not in client_tools


def calls_in(content: Sequence[Mapping[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    """The assistant message with `content` and calls renamed to `tool_name`; without calls if they may be truncated."""
    is_complete = not truncates(stop_reason)
    message_blocks = [
        {**block, "name": tool_name(block)} if block.get("type") == TOOL_USE else block
        for block in content
        if is_complete or block.get("type") != TOOL_USE
    ]
    return {"role": "assistant", "content": message_blocks}


def new_mark() -> str:
    """A new random part for the signature prefixes of one answer, 32 hexadecimal digits."""
    return secrets.token_hex(16)


def mark_signature(signature: str, number: int, mark: str) -> str:
    """A signature of round `number` as the client gets it: after the first round with the gateway's prefix."""
    return f"{MARK}{number}.{mark}.{signature}" if number > 1 and signature else signature


def thought_key(signature: str) -> CallKey | None:
    """Key under which the gateway stored the turn of a signature; None for a signature without the gateway's prefix."""
    match = _MARK_PATTERN.match(signature)
    return None if match is None or match[2] is None else CallKey(match[2], SIGNED_REASONING)


def as_message(role: str, blocks: Sequence[Block]) -> list[bytes]:
    """The request message with these blocks, in a list; an empty list if no block can be sent.

    Texts of white space only, which models write, are left out: the API refuses them in requests, and messages without
    content too.
    """
    sendable = [block for block in blocks if block.kind != "text" or str(block.members.get("text", "")).strip()]
    raws = b",".join(bytes(block.raw) for block in sendable)
    return [b'{"role":"%s","content":[%s]}' % (role.encode(), raws)] if sendable else []
