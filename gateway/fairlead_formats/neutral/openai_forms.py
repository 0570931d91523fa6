"""Forms of one member in OpenAI's APIs: flat in Responses; in Chat Completions all but `type` is in a member of the
type's name. Pure module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead_formats.messages.drafts import member, text_of


def flat(given: object) -> object:
    """A member of Chat Completions as Responses have it."""
    kind = text_of(member(given, "type"))
    inner = member(given, kind) if kind else None
    return {**inner, "type": kind} if isinstance(inner, dict) else given


def nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """A member of Responses as Chat Completions have it."""
    inner = {name: value for name, value in given.items() if name != "type"}
    return {"type": given["type"], given["type"]: inner} if inner else dict(given)
