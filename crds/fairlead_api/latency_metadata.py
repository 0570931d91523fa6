"""Latency, tier floor and result length of a tool: the declarations of the tool's author, merged with the declarations
in the McpServer.

Authors declare these values in the tool's definition, where their SDK allows it: in `_meta` of the tool (MCP,
`Tool._meta`), beside `name`, among `annotations`, or inside `inputSchema`. All these locations are read; if several
declare a value, the first of them wins. Within a location, a key with the prefix `fairlead.dev/` takes precedence over
a key without it. This module has no I/O.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw
from pydantic import TypeAdapter, ValidationError

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.v1alpha1.common import Duration, TierName
from fairlead_api.v1alpha1.mcpserver import ToolLatency

PREFIX: Final = "fairlead.dev/"
OBJECT: Final = f"{PREFIX}latency"
"""Key of an object that holds all members, in camelCase: `estimatedDurationMs`."""
PLACES: Final = ("_meta", "", "annotations", "inputSchema")
"""Members of a definition that may hold declarations; the empty string is the definition itself."""
LONGEST_MS: Final = 2**53
SHOWN_CHARACTERS: Final = 40
LEAST_TOKENS: Final = 200
"""Minimum value of a limit on the tokens of a result: a smaller limit would leave no room for any content."""

_TIER_NAME: Final = TypeAdapter(TierName)
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_value = msgspec.json.Decoder().decode
Place = tuple[str, Mapping[str, Raw]]
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors that raw JSON may cause when it is decoded later: numbers out of range, bytes that are not UTF-8, nesting
depth."""


@dataclass(frozen=True)
class Authored:
    """Latency, tier floor and result length that one definition declares."""

    latency: DeclaredLatency
    min_tier: str | None = None
    """Name of the fastest latency tier that may show the tool."""
    result_tokens: int | None = None
    """Maximum number of tokens of a result."""
    unusable: tuple[str, ...] = ()
    """A sentence for each invalid value, with its location."""


def authored_latency(definition: bytes | Raw) -> Authored:
    """The author's declarations in a tool's definition; none if the definition is not a JSON object."""
    places = list(_places(definition))
    if not places:
        return Authored(DeclaredLatency())
    unusable: list[str] = []

    def first(name: str, read: Callable[[Any], Any], wanted: str) -> Any:
        chosen = None
        for where, raw in _values(places, name):
            usable = read(_scalar(raw))
            if usable is None and raw != b"null":
                unusable.append(f"{where} is {_raw_text(raw)}, not {wanted}")
            chosen = usable if chosen is None else chosen
        return chosen

    latency = DeclaredLatency(
        estimated_duration_ms=first("estimated_duration_ms", _number, "a number of milliseconds"),
        max_duration_ms=first("max_duration_ms", _number, "a number of milliseconds"),
        idempotent=first("idempotent", _truth, "true or false"),
        cacheable_seconds=first("cacheable_seconds", _number, "a number of seconds"),
    )
    min_tier = first("min_tier", _tier_name, "the name of a latency tier")
    result_tokens = first("result_tokens", _tokens, f"a number of at least {LEAST_TOKENS} tokens")
    return Authored(latency, min_tier, result_tokens, tuple(unusable))


def effective_latency(
    stated: ToolLatency | None, authored: DeclaredLatency, *, trusted: bool
) -> DeclaredLatency | None:
    """The declarations of the McpServer and the author, merged by member; the McpServer's declarations win. None if
    there are no declarations.

    The author's `idempotent` counts only if the server's annotations are `trusted`, because idempotent calls are
    retried. An untrusted estimate can keep the tool out of a tier, but not put it into one.
    """
    stated = stated or ToolLatency()
    merged = DeclaredLatency(
        estimated_duration_ms=_first_stated(_ms(stated.estimated), authored.estimated_duration_ms),
        estimate_untrusted=not trusted and stated.estimated is None and authored.estimated_duration_ms is not None,
        max_duration_ms=_first_stated(_ms(stated.max), authored.max_duration_ms),
        idempotent=_first_stated(stated.idempotent, authored.idempotent if trusted else None),
        cacheable_seconds=_first_stated(_seconds(stated.cacheable), authored.cacheable_seconds),
    )
    return merged if merged != DeclaredLatency() else None


def _ms(stated: Duration | None) -> int | None:
    return None if stated is None else stated.milliseconds


def _seconds(stated: Duration | None) -> int | None:
    return None if stated is None else stated.milliseconds // 1000


def _places(definition: bytes | Raw) -> Iterator[Place]:
    """Each location that is a JSON object, preceded by the `fairlead.dev/latency` object in it."""
    try:
        tool = _members(definition)
    except _UNREADABLE:
        return
    for path in PLACES:
        try:
            members = _members(tool[path]) if path else tool
        except (KeyError, *_UNREADABLE):
            continue
        if OBJECT in members:
            with contextlib.suppress(*_UNREADABLE):
                yield f"{path}[{OBJECT}]." if path else f"{OBJECT}.", _members(members[OBJECT])
        yield f"{path}." if path else "", members


def _values(places: list[Place], name: str) -> Iterator[tuple[str, bytes]]:
    """Each JSON value that is declared for a member, with its location, in order of precedence."""
    head, *rest = name.split("_")
    camel = head + "".join(word.title() for word in rest)
    for where, members in places:
        for key in dict.fromkeys((PREFIX + name, PREFIX + camel, name, camel)):
            if key in members:
                yield where + key, bytes(members[key])


def _scalar(raw: bytes) -> Any:
    """Decode a JSON scalar. None for an object or array, whose nesting depth is not limited."""
    if raw[:1] in (b"{", b"["):
        return None
    try:
        return _value(raw)
    except _UNREADABLE:
        return None


def _raw_text(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    short = text[:SHOWN_CHARACTERS] + ("…" if len(text) > SHOWN_CHARACTERS else "")
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in short)


def _number(value: Any) -> int | None:
    """A number from 0 to below `LONGEST_MS`, in any unit, which may be given as a string; None for any other value."""
    if isinstance(value, str) and len(value) <= SHOWN_CHARACTERS:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LONGEST_MS:
        return round(value)
    return None


def _tokens(value: Any) -> int | None:
    number = _number(value)
    return None if number is None or number < LEAST_TOKENS else number


def _tier_name(value: Any) -> str | None:
    try:
        return _TIER_NAME.validate_python(value, strict=True)
    except ValidationError:
        return None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _first_stated(*candidates: Any) -> Any:
    return next((value for value in candidates if value is not None), None)
