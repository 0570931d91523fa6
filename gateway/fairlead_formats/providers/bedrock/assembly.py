"""Assembly of the deltas of one streamed block of Converse into the block of a whole answer. Pure module."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import member, text_of
from fairlead_formats.providers.bedrock.blocks import REASONING, TOOL_RESULT, TOOL_USE, Block, call_in
from fairlead_formats.wire.call_ids import new_id

INVALID: Final = "INVALID_JSON"
"""Member that wraps the input of a call if it is not a JSON object."""
_decode_json: Final = msgspec.json.Decoder().decode


class ConverseBlock:
    """One unfinished block of a stream."""

    def __init__(self, start: object, earlier_ids: Collection[str] = (), delta: object = None) -> None:
        """`start`: member `start` of the block's `contentBlockStart`. A block without this event begins with its first
        `delta`. `earlier_ids`: ids of the answer's earlier calls.
        """
        self.index: int | None = None
        """Index in the client's stream; None if the block is hidden, and until `is_numbered`."""
        self.is_numbered = False
        """Whether it is decided if the block has an index."""
        self.kind = next(iter(start if isinstance(start, dict) else delta if isinstance(delta, dict) else ()), "text")
        """Name of the block's only member, which tells its kind, such as `text`."""
        start_value = member(start, self.kind)
        self.start: dict[str, Any] = dict(start_value) if isinstance(start_value, dict) else {}
        """Members at the start of the block."""
        self._texts: dict[str, list[str]] = {}
        self._results: list[Any] = []
        self.is_redacted = False
        """Whether the block is reasoning that only its model can read."""
        ident = text_of(self.start.get("toolUseId"))
        self.has_new_id = call_in({self.kind: self.start}) is not None and (not ident or ident in earlier_ids)
        """Whether the call has a new id, because the provider sent none or repeated the id of an earlier call."""
        if self.has_new_id:
            self.start["toolUseId"] = new_id("toolu")

    @property
    def call_id(self) -> str:
        """Id of a call; empty for other blocks."""
        return str(self.start["toolUseId"]) if call_in({self.kind: self.start}) is not None else ""

    def add_delta(self, delta: object) -> None:
        """Add the members of a delta to the block."""
        if not self._texts and not self.start and isinstance(delta, dict) and REASONING in delta:
            self.kind = REASONING  # some models begin a block of reasoning with an empty start
        value = member(delta, self.kind)
        if self.kind == REASONING and member(value, "redactedContent") is not None:
            self.is_redacted = True
        if isinstance(value, str):
            self._texts.setdefault("text", []).append(value)
        elif isinstance(value, list):
            self._results += value
        elif isinstance(value, Mapping):
            for name, piece in value.items():
                if isinstance(piece, str):
                    self._texts.setdefault(name, []).append(piece)

    def block(self) -> Block:
        """The assembled block, in the form in which the next request to the provider repeats it."""
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self.kind == TOOL_USE:
            return {TOOL_USE: {**self.start, "input": _input(texts.get("input", ""))}}
        if self.kind == TOOL_RESULT:
            return {TOOL_RESULT: {**self.start, "content": self._results}}
        if self.kind != REASONING:
            return {"text": texts.get("text", "")}
        if self.is_redacted:
            return {REASONING: {"redactedContent": texts.get("redactedContent", "")}}
        return {REASONING: {"reasoningText": {"text": "", **texts}}}


def _input(text: str) -> object:
    """Input of a call. Text that is not a JSON object is wrapped, because the API accepts only objects."""
    try:
        value = _decode_json(text) if text.strip() else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {INVALID: text}
