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
    unknown = _UNKNOWN.search(str(error))
    if unknown is None:
        return ""
    members = {field.encode_name: path for path, struct in objects.items() for field in msgspec.structs.fields(struct)}
    if (path := members.get(unknown[1])) is not None:
        return f"; {unknown[1]} is a member of {path}: move it there"
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(unknown[1], members, n=1, cutoff=_SIMILAR)
    return f"; did you mean {near[0]}?" if near else ""
