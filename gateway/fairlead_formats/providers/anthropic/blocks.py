"""Content blocks of Anthropic Messages: who runs their calls, and which round their thoughts are of.

Pure module, which takes whatever a client or a model wrote. A client gets the blocks of all rounds in one message, and
sends them back in one; the API takes thoughts in the message of their own answer only. Signatures of thoughts from the
second round on therefore get the round's number in front, and lose it on the way up: no base64 has a point in it.
Beside the number stand 128 random bits, by which a turn is found again: the signature is the provider's, and may be
guessed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.wire.protocol import SIGNED_THOUGHT, CallKey, InnerCall

TOOL_USE: Final = "tool_use"
SIGNED: Final[Mapping[str, str]] = {"thinking": "signature", "redacted_thinking": "data"}
"""By type of a block of thoughts: its member that nobody may change."""
MARK: Final = "fairlead."
"""Begins what is put in front of a signature."""
ELSEWHERE: Final = "fairlead.0."
"""Signature of thoughts of a model of another family, which are shown, and do not go out again."""
UNFINISHED: Final = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
"""Stop reasons after which a call may be cut off, so that it is not run."""
_MARKED: Final = re.compile(r"fairlead\.([0-9]{1,4})\.(?:([0-9a-f]{32})\.)?")
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_any: Final = msgspec.json.Decoder().decode


class Block(msgspec.Struct, frozen=True):
    """One block: its raw JSON and its decoded members."""

    raw: bytes | Raw
    members: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.members.get("type", ""))

    @property
    def signature(self) -> str:
        """Signature of a thought; empty for any other block."""
        value = self.members.get(SIGNED.get(self.kind, ""))
        return value if isinstance(value, str) else ""

    @property
    def round(self) -> int:
        """Number that the signature of a thought is marked with; 1 without a mark."""
        match = _MARKED.match(self.signature)
        return 1 if match is None else int(match[1])

    @property
    def elsewhere(self) -> bool:
        """Whether it is a thought of another family's model."""
        return self.signature == ELSEWHERE

    def unwrap(self, call: InnerCall) -> Block:
        """A call of `execute_tool`, replaced by the call that it names."""
        raws: dict[str, Any] = dict(_members(self.raw))
        return block_of(_encode({**raws, "name": call.name, "input": Raw(call.arguments)}))

    def sign(self, signature: str) -> Block:
        """The thought with another signature."""
        raws = _members(self.raw)
        raws[SIGNED[self.kind]] = Raw(_encode(signature))
        return block_of(_encode(raws))

    def mark(self, number: int, mark: str) -> Block:
        """A thought of the round as the client gets it; any other block as it is."""
        return self.sign(mark_signature(self.signature, number, mark)) if number > 1 and self.signature else self

    def unmark(self) -> Block:
        """A thought as the provider made it; any other block as it is."""
        match = _MARKED.match(self.signature)
        return self if match is None else self.sign(self.signature[match.end() :])


def block_of(raw: bytes | Raw) -> Block:
    """A block, decoded. Raises msgspec.MsgspecError, UnicodeDecodeError, RecursionError."""
    value = _any(raw)
    return Block(raw, value if isinstance(value, dict) else {})


def blocks_of(content: bytes | Raw) -> list[Block]:
    """Blocks of a message's content, which may be a text. Raises as `block_of`."""
    if bytes(content[:1]) == b'"':
        text = _any(content)
        return [block_of(_encode({"type": "text", "text": text}))] if text else []
    return [block_of(raw) for raw in _raws(content)]


def tool_name(block: Mapping[str, Any]) -> str:
    """Name that decides whose tool a call is of: the name of its toolset where it has one, else its own."""
    for member in ("toolset_name", "name"):
        if isinstance(block.get(member), str):
            return str(block[member])
    return ""


def is_hidden(block: Mapping[str, Any], client_tools: Collection[str] | None) -> bool:
    """Whether a block is a call that the gateway runs, which the caller does not see."""
    return client_tools is not None and block.get("type") == TOOL_USE and tool_name(block) not in client_tools


def calls_in(content: Sequence[Mapping[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    """The message with its calls under their `tool_name`, and without calls that may be cut off."""
    finished = stop_reason not in UNFINISHED
    finished_blocks = [
        {**block, "name": tool_name(block)} if block.get("type") == TOOL_USE else block
        for block in content
        if finished or block.get("type") != TOOL_USE
    ]
    return {"role": "assistant", "content": finished_blocks}


def new_mark() -> str:
    """Random part of the marks of one answer."""
    return secrets.token_hex(16)


def mark_signature(signature: str, number: int, mark: str) -> str:
    """A signature as the client gets it."""
    return f"{MARK}{number}.{mark}.{signature}" if number > 1 and signature else signature


def thought_key(signature: str) -> CallKey | None:
    """Key of the turn that a marked signature belongs to; None for a signature without a mark of the gateway."""
    match = _MARKED.match(signature)
    return None if match is None or match[2] is None else CallKey(match[2], SIGNED_THOUGHT)


def as_message(role: str, blocks: Sequence[Block]) -> list[bytes]:
    """The message of these blocks as it stands in a request; none where nothing is left. The API refuses texts of
    white space alone, which models write, and messages without content.
    """
    sendable = [block for block in blocks if block.kind != "text" or str(block.members.get("text", "")).strip()]
    raws = b",".join(bytes(block.raw) for block in sendable)
    return [b'{"role":"%s","content":[%s]}' % (role.encode(), raws)] if sendable else []
