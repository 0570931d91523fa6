"""Assembly of the deltas of a streamed answer into the blocks of a whole answer. Pure module.

A delta appends its text to the member of the same name, or its piece of JSON to the input of a call. Only a signature
replaces an earlier value. The input of a call keeps the JSON text that the model wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import TOOL_USE, Block
from fairlead_formats.wire.call_ids import new_id
from fairlead_formats.wire.protocol import InnerCall
from fairlead_formats.wire.text_pieces import TextPieces

INVALID: Final = "INVALID_JSON"
"""Member that wraps the input of a call if it is not JSON (Anthropic's guide to fine-grained tool streaming)."""
_INPUT: Final = "partial_json"
_REPLACING_MEMBERS: Final = frozenset({"signature"})
"""Members of a delta that replace the block's earlier value."""
_LIST_MEMBERS: Final[Mapping[str, str]] = {"citation": "citations"}
"""Maps a member of a delta to the block's list member that the value is appended to."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode: Final = msgspec.json.Decoder().decode


class StreamedBlock:
    """One unfinished block of a stream."""

    def __init__(self, start: Mapping[str, Raw], earlier_ids: Collection[str] = ()) -> None:
        """`start`: the block in its `content_block_start`. `earlier_ids`: ids of the answer's earlier calls."""
        self._start = dict(start)
        self.members: dict[str, Any] = {name: _decode(raw) for name, raw in start.items()}
        """Members at the start of the block."""
        self._texts: dict[str, TextPieces] = {}
        """Texts from deltas, by member of the block."""
        self._lists: dict[str, list[Any]] = {}
        """List entries from deltas, by member of the block."""
        self._input_pieces: list[str] = []
        """Pieces of the JSON text of a call's input."""
        ident = self.members.get("id")
        self.has_new_id = self.members.get("type") == TOOL_USE and (not ident or str(ident) in earlier_ids)
        """Whether the call has a new id, because the provider sent none or repeated the id of an earlier call."""
        if self.has_new_id:
            self.members["id"] = new_id("toolu")
            self._start["id"] = Raw(_encode(self.members["id"]))

    def append_text(self, name: str, piece: str) -> None:
        """Append a piece of text to a member."""
        pieces = self._texts.get(name)
        if pieces is None:
            pieces = self._texts[name] = TextPieces()
        pieces.append(piece)

    def add_delta(self, delta: Mapping[str, Any]) -> None:
        """Add the members of a delta to the block."""
        for name, value in delta.items():
            if name == _INPUT:
                self._input_pieces.append(str(value))
            elif name in _LIST_MEMBERS:
                self._lists.setdefault(_LIST_MEMBERS[name], []).append(value)
            elif name in _REPLACING_MEMBERS:
                self._texts[name] = TextPieces()
                self.append_text(name, str(value))
                self.members[name] = ""
            elif name != "type" and isinstance(value, str):
                self.append_text(name, value)

    def unwrap(self, call: InnerCall) -> None:
        """Replace a call of `execute_tool` by the call that it names."""
        self.members["name"], self._start["name"] = call.name, Raw(_encode(call.name))
        self._input_pieces = [call.arguments.decode()]

    def block(self) -> Block:
        """The assembled block, in the form in which the next request to the provider repeats it."""
        raws, members = dict(self._start), dict(self.members)
        for name, pieces in self._texts.items():
            members[name] = str(members.get(name) or "") + pieces.text
            raws[name] = Raw(_encode(members[name]))
        for name, items in self._lists.items():
            members[name] = [*(members.get(name) or ()), *items]
            raws[name] = Raw(_encode(members[name]))
        text = "".join(self._input_pieces)
        if text.strip():
            members["input"], raws["input"] = _decode_input(text)
        return Block(_encode(raws), members)


def _decode_input(text: str) -> tuple[object, Raw]:
    """Decoded input of a call, and its JSON for the next request; text that is not an object is wrapped (`INVALID`)."""
    try:
        value = _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value, Raw(text.encode())
    return text, Raw(_encode({INVALID: text.encode("utf-8", "replace").decode()}))
