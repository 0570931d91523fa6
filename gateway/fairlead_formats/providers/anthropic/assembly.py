"""Blocks of one streamed answer as they would be in a whole one. Pure module.

Texts grow; a signature comes in one delta, and replaces an earlier one; the input of a call is JSON in pieces, which
stays as the model wrote it. Unknown members of deltas grow like text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import TOOL_USE, Block
from fairlead_formats.wire.call_ids import new_id
from fairlead_formats.wire.protocol import InnerCall

INVALID: Final = "INVALID_JSON"
"""Member that holds the input of a call which is not JSON (Anthropic's guide to fine-grained tool streaming)."""
_INPUT: Final = "partial_json"
_REPLACED: Final = frozenset({"signature"})
_LISTED: Final[Mapping[str, str]] = {"citation": "citations"}
"""By member of a delta: the list that it is added to."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_any: Final = msgspec.json.Decoder().decode


class StreamedBlock:
    """One block of a stream that is not complete yet."""

    def __init__(self, start: Mapping[str, Raw], taken: Collection[str] = ()) -> None:
        """`taken`: ids of the calls before it."""
        self._start = dict(start)
        self.members: dict[str, Any] = {name: _any(raw) for name, raw in start.items()}
        """As it began."""
        self._grown: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._input: list[str] = []
        ident = self.members.get("id")
        self.given_id = self.members.get("type") == TOOL_USE and (not ident or str(ident) in taken)
        """Whether it came without an id of its own, by which its result is matched."""
        if self.given_id:
            self.members["id"] = new_id("toolu")
            self._start["id"] = Raw(_encode(self.members["id"]))

    def grow_text(self, name: str, piece: str) -> None:
        """Add a piece of the text of a member."""
        self._grown.setdefault(name, []).append(piece)

    def grow(self, delta: Mapping[str, Any]) -> None:
        """Add a delta."""
        for name, value in delta.items():
            if name == _INPUT:
                self._input.append(str(value))
            elif name in _LISTED:
                self._lists.setdefault(_LISTED[name], []).append(value)
            elif name in _REPLACED:
                self._grown[name] = [str(value)]
                self.members[name] = ""
            elif name != "type" and isinstance(value, str):
                self._grown.setdefault(name, []).append(value)

    def unwrap(self, call: InnerCall) -> None:
        """Replace a call of `execute_tool` by the call that it names."""
        self.members["name"], self._start["name"] = call.name, Raw(_encode(call.name))
        self._input = [call.arguments.decode()]

    def block(self) -> Block:
        """The block as it stands in the next request."""
        raws, members = dict(self._start), dict(self.members)
        for name, pieces in self._grown.items():
            members[name] = str(members.get(name) or "") + "".join(pieces)
            raws[name] = Raw(_encode(members[name]))
        for name, items in self._lists.items():
            members[name] = [*(members.get(name) or ()), *items]
            raws[name] = Raw(_encode(members[name]))
        written = "".join(self._input)
        if written.strip():
            members["input"], raws["input"] = _input(written)
        return Block(_encode(raws), members)


def _input(written: str) -> tuple[object, Raw]:
    """Input of a call: as it is read here, and as it stands in the next request."""
    try:
        value = _any(written)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value, Raw(written.encode())
    return written, Raw(_encode({INVALID: written.encode("utf-8", "replace").decode()}))
