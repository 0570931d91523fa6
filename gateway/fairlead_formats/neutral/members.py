"""Reads the members of a client's request. Members that are not read are reported as lost. Pure module."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from fairlead_formats.messages.call import member
from fairlead_formats.wire.family_format import reading_body
from fairlead_formats.wire.protocol import BadRequest, TranslationLosses

MAX_ENTRIES: Final = 20_000
"""Maximum number of messages or items in a request that is translated."""
MAX_PARTS: Final = 40_000
"""Maximum number of messages or items together with all their parts, and also of tools with their nested tools."""
_PART_MEMBERS: Final = (
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
"""Members of messages, parts and tools that hold further parts or tools."""
Value = TypeVar("Value")
_decode: Final = msgspec.json.Decoder().decode
_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", [], {}, False)


def decode_body(body: bytes) -> dict[str, Any]:
    """The JSON object in a request body. Raises BadRequest for any other body."""
    with reading_body():
        value = _decode(body)
    if not isinstance(value, dict):
        raise BadRequest("the body is not a JSON object")
    return value


class RequestMembers:
    """Members of one object of a request. Each read removes the member, so that the rest can be reported."""

    def __init__(self, value: object, losses: TranslationLosses) -> None:
        self._unread: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
        self._losses = losses

    def first(self, *names: str) -> Any:
        """The value of the first of these members that is not null, or None. All these members are removed."""
        values = [self._unread.pop(name, None) for name in names]
        return next((value for value in values if value is not None), None)

    def text(self, *names: str) -> str | None:
        """A string; None for an empty string and for a value of another type."""
        value = self.first(*names)
        return value if isinstance(value, str) and value else None

    def model(self) -> str:
        """The model name. Raises BadRequest if there is none."""
        name = self.text("model")
        if name is None:
            raise BadRequest("model: the request needs the name of a model", "model")
        return name

    def positive_integer(self, *names: str) -> int | None:
        """A positive integer; None for any other value."""
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
        """A string or a list of strings, without empty strings and values of other types."""
        value = self.first(*names)
        entries = value if isinstance(value, list) else [value]
        return tuple(entry for entry in entries if isinstance(entry, str) and entry)

    def take_members(self, *names: str) -> dict[str, Any]:
        """The values of these members by name, without null values."""
        values = {name: self._unread.pop(name, None) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def leave_out(self, *names: str) -> None:
        """Remove members that need not be reported."""
        for name in names:
            self._unread.pop(name, None)

    def refuse(self, name: str, why: str) -> None:
        """Raise BadRequest if the member has a value."""
        if self._unread.pop(name, None) not in _EMPTY_VALUES:
            raise BadRequest(f"{name}: {why}", name)

    def report_rest(self, prefix: str = "") -> None:
        """Report as lost every member that has a value and was not read. `prefix`: put before each reported name."""
        for name, value in self._unread.items():
            if value not in _EMPTY_VALUES:
                self._losses.add(prefix + name)


def report_extras(part: object, losses: TranslationLosses, *standard: str) -> None:
    """Report as lost every member of a part that is not in `standard`."""
    members = RequestMembers(part, losses)
    members.leave_out("type", *standard)
    members.report_rest()


def require_list(members: RequestMembers, name: str) -> list[Any]:
    """A list with 1 to `MAX_ENTRIES` entries. Raises BadRequest."""
    value = members.first(name)
    if value is not None and not isinstance(value, list):
        raise BadRequest(f"{name}: must be a list", name)
    if not value:
        raise BadRequest(f"{name}: the request needs at least one entry", name)
    if len(value) > MAX_ENTRIES:
        raise BadRequest(f"{name}: {len(value)} entries exceed the limit of {MAX_ENTRIES}", name)
    return limit_parts(value, name)


def require_messages(members: RequestMembers, name: str, content: str, *, is_text: bool = True) -> list[Any]:
    """The request's messages: a list of objects whose member `content` is missing, a list of objects or, with
    `is_text`, a text. Raises BadRequest.
    """
    messages = require_list(members, name)
    for index, message in enumerate(messages):
        at = f"{name}.{index}"
        if not isinstance(message, dict):
            raise BadRequest(f"{at}: must be an object", name)
        value = message.get(content)
        if value is None or (is_text and isinstance(value, str)):
            continue
        if not isinstance(value, list):
            expected = "a text or a list of parts" if is_text else "a list of parts"
            raise BadRequest(f"{at}.{content}: must be {expected}", name)
        for number, part in enumerate(value):
            if not isinstance(part, dict):
                raise BadRequest(f"{at}.{content}.{number}: must be an object", name)
    return messages


def limit_parts(value: Value, name: str) -> Value:
    """The value, if it has at most `MAX_PARTS` entries including their parts. Raises BadRequest."""
    count, stack = 0, [value]
    while stack:
        entry: Any = stack.pop()
        if isinstance(entry, list):
            count += len(entry)
            stack += entry if count <= MAX_PARTS else ()
        elif isinstance(entry, dict):
            stack += [entry[holder] for holder in _PART_MEMBERS if holder in entry]
    if count > MAX_PARTS:
        raise BadRequest(f"{name}: the entries and their parts exceed the limit of {MAX_PARTS}; send fewer parts", name)
    return value


def kind_of_part(part: object) -> str:
    """The `type` of a message part; empty if it has none."""
    kind = member(part, "type")
    return kind if isinstance(kind, str) else ""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
