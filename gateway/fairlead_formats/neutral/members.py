"""Members of a client's request, read one by one: those that nobody read are reported. Pure module."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from fairlead_formats.messages.call import member
from fairlead_formats.wire.family_format import reading_body
from fairlead_formats.wire.losses import TranslationLosses
from fairlead_formats.wire.protocol import BadRequest

MAX_ENTRIES: Final = 20_000
"""Messages or items of a request that is translated."""
MAX_PARTS: Final = 40_000
"""Messages or items of a request with all their parts; likewise its tools with theirs."""
_HOLDERS: Final = (
    "content",
    "parts",
    "tool_calls",
    "output",
    "summary",
    "tools",
    "functionResponse",
    "function_response",
    "functionDeclarations",
    "function_declarations",
)
"""Members in which messages, parts and tools hold others."""
Value = TypeVar("Value")
_decode: Final = msgspec.json.Decoder().decode
_NOTHING_SAID: Final[tuple[Any, ...]] = (None, "", [], {}, False)


def decode_body(body: bytes) -> dict[str, Any]:
    """A body that is a JSON object. Raises BadRequest."""
    with reading_body():
        value = _decode(body)
    if not isinstance(value, dict):
        raise BadRequest("the body is not a JSON object")
    return value


class RequestMembers:
    """Members of one object of a request."""

    def __init__(self, value: object, losses: TranslationLosses) -> None:
        self._left: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
        self._losses = losses

    def first(self, *names: str) -> Any:
        """The first of these members that is not null; all of them count as read."""
        values = [self._left.pop(name, None) for name in names]
        return next((value for value in values if value is not None), None)

    def text(self, *names: str) -> str | None:
        """A text; None for an empty one and for a value of another type."""
        value = self.first(*names)
        return value if isinstance(value, str) and value else None

    def model(self) -> str:
        """The model. Raises BadRequest where none is named."""
        named = self.text("model")
        if named is None:
            raise BadRequest("model: give a name", "model")
        return named

    def whole(self, *names: str) -> int | None:
        """A whole number above zero; None for any other value."""
        value = self.first(*names)
        return int(value) if _is_number(value) and value == int(value) and value > 0 else None

    def number(self, *names: str) -> float | None:
        """A number; None for any other value."""
        value = self.first(*names)
        return value if _is_number(value) else None

    def flag(self, *names: str) -> bool | None:
        """A boolean; None for any other value."""
        value = self.first(*names)
        return value if isinstance(value, bool) else None

    def texts(self, *names: str) -> tuple[str, ...]:
        """A text or a list of texts, without empty ones and values of other types."""
        value = self.first(*names)
        entries = value if isinstance(value, list) else [value]
        return tuple(entry for entry in entries if isinstance(entry, str) and entry)

    def take_members(self, *names: str) -> dict[str, Any]:
        """Those of these members that are not null, by name."""
        values = {name: self._left.pop(name, None) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def leave_out(self, *names: str) -> None:
        """Drop members without reporting them."""
        for name in names:
            self._left.pop(name, None)

    def refuse(self, name: str, why: str) -> None:
        """Raise BadRequest where a member has a value."""
        if self._left.pop(name, None) not in _NOTHING_SAID:
            raise BadRequest(f"{name}: {why}", name)

    def report_rest(self, at: str = "") -> None:
        """Report every member that has a value and was not read."""
        for name, value in self._left.items():
            if value not in _NOTHING_SAID:
                self._losses.add(at + name)


def report_extras(part: object, losses: TranslationLosses, *standard: str) -> None:
    """Report the members of a part that are not among the `standard` ones."""
    members = RequestMembers(part, losses)
    members.leave_out("type", *standard)
    members.report_rest()


def require_list(members: RequestMembers, name: str) -> list[Any]:
    """A list of one entry to `MAX_ENTRIES`. Raises BadRequest."""
    value = members.first(name)
    if not isinstance(value, list) or not value:
        raise BadRequest(f"{name}: give at least one", name)
    if len(value) > MAX_ENTRIES:
        raise BadRequest(f"{name}: {len(value)} entries are too many, give at most {MAX_ENTRIES}", name)
    return limit_parts(value, name)


def limit_parts(value: Value, name: str) -> Value:
    """The list, unless it holds more than `MAX_PARTS` entries and parts of them. Raises BadRequest."""
    counted, left = 0, [value]
    while left:
        entry: Any = left.pop()
        if isinstance(entry, list):
            counted += len(entry)
            left += entry if counted <= MAX_PARTS else ()
        elif isinstance(entry, dict):
            left += [entry[holder] for holder in _HOLDERS if holder in entry]
    if counted > MAX_PARTS:
        raise BadRequest(f"{name}: more than {MAX_PARTS} entries with their parts are too many, send fewer", name)
    return value


def kind_of_part(part: object) -> str:
    """The `type` of a part of a message; empty without one."""
    kind = member(part, "type")
    return kind if isinstance(kind, str) else ""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
