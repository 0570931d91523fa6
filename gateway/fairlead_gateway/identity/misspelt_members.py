"""Advice about unknown members of `FAIRLEAD_IDENTITY`: a similar name, or the object that has the member. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

_UNKNOWN: Final = re.compile("unknown field `([^`]+)`")
_SIMILAR: Final = 0.6


def advice_for(error: msgspec.ValidationError, objects: Mapping[str, type[msgspec.Struct]]) -> str:
    """Advice about an unknown member, as the end of a sentence; empty for other errors. `objects` are the structs of
    the file's objects, by path, such as `authorizationServer.providers`.
    """
    match = _UNKNOWN.search(str(error))
    if match is None:
        return ""
    members = {field.encode_name: path for path, struct in objects.items() for field in msgspec.structs.fields(struct)}
    if (path := members.get(match[1])) is not None:
        return f"; {match[1]} is a member of {path}: move it there"
    import difflib  # only a mistake needs it

    similar_names = difflib.get_close_matches(match[1], members, n=1, cutoff=_SIMILAR)
    return f"; did you mean {similar_names[0]}?" if similar_names else ""
