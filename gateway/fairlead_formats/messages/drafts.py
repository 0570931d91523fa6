"""From what a format finds in a message to calls: ids, names, arguments, duplicates and bounds, the same everywhere.

Pure module, for messages and for streams.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fairlead_formats.messages.arguments import excerpt, read, well_formed
from fairlead_formats.messages.call import MAX_CALLS, MAX_NAME, InvalidCall, ModelCall
from fairlead_formats.names import Names
from fairlead_formats.tool_format import JsonObject


class Draft(msgspec.Struct, frozen=True):
    """One call as a message holds it, nothing checked."""

    id: object
    name: object
    arguments: object
    kind: str = ""
    problem: str | None = None
    """Makes the call invalid whatever it holds."""


def finish(drafts: Iterable[Draft], names: Names | None, *, start: int = 0) -> list[ModelCall]:
    """Calls from drafts, one for each. `start` is the place of the first in its message."""
    seen: set[str] = set()
    calls = []
    for place, draft in enumerate(drafts, start):
        call = _call(draft, place, names)
        if call.id in seen:
            call = _refused(
                call, f"the id {call.id!r} is that of an earlier call of this message; repeat the call with another"
            )
        elif place >= MAX_CALLS:
            call = _refused(call, f"a message may make {MAX_CALLS} calls; this one was not run: repeat it on its own")
        seen.add(call.id)
        calls.append(call)
    return calls


def _call(draft: Draft, place: int, names: Names | None) -> ModelCall:
    arguments: JsonObject | InvalidCall = read(draft.arguments)
    if draft.problem is not None:
        text = excerpt(draft.arguments) if isinstance(draft.arguments, str) else ""
        arguments = InvalidCall(draft.problem, text)
    sent = text_of(draft.name)
    if not sent:
        arguments = InvalidCall("the call names no tool")
    elif len(sent) > MAX_NAME:
        arguments = InvalidCall(f"the name of the tool is longer than {MAX_NAME} characters")
        sent = sent[:MAX_NAME]
    ident = text_of(draft.id)
    made = not 0 < len(ident) <= MAX_NAME
    if made:
        ident = made_id(place, sent, draft.arguments)
    original = names.original(sent) if names is not None else None
    if original is None:
        return ModelCall(ident, sent, arguments, made_id=made, kind=draft.kind)
    return ModelCall(ident, original, arguments, sent if sent != original else "", made, draft.kind)


def _refused(call: ModelCall, reason: str) -> ModelCall:
    return msgspec.structs.replace(call, arguments=InvalidCall(reason))


def made_id(place: int, name: str, arguments: object) -> str:
    """An id for a call that came without: the same call at the same place gets the same one."""
    try:
        body = arguments.encode("utf-8", "replace") if isinstance(arguments, str) else _canonical(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError):
        body = b""
    digest = hashlib.sha256(b"%d\0%s\0%s" % (place, name.encode("utf-8", "replace"), body))
    return f"call_{digest.hexdigest()[:24]}"


_canonical = msgspec.json.Encoder(order="deterministic").encode


def text_of(value: object) -> str:
    """Text that can be sent on; empty for anything else."""
    return value if isinstance(value, str) and well_formed(value) else ""


def fitting_id(ident: str, allowed: re.Pattern[str]) -> str:
    """The id where a provider takes it, else one made from it."""
    if allowed.match(ident):
        return ident
    return substitute_id(ident)


def substitute_id(ident: str) -> str:
    """The id in place of one that a provider does not take."""
    return f"call_{hashlib.sha256(ident.encode('utf-8', 'replace')).hexdigest()[:24]}"


def member(value: object, *keys: str) -> Any:
    """The first of these members that an object has and that is not null; None where there is none."""
    if isinstance(value, Mapping):
        for key in keys:
            found = value.get(key)
            if found is not None:
                return found
    return None


def items(value: object) -> list[Any]:
    """A list as it is; nothing for anything else."""
    return value if isinstance(value, list) else []
