"""Calls of a stream that are told apart by more than their ids: compatible servers of Chat Completions send none, one
for all of them, or every call under the index 0. Pure module.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

MAX_LOOKS: Final = 16
"""How often the arguments of one call are looked at: a server may repeat the name of a call with each piece of it."""
MAX_LOOKED_AT: Final = 1 << 16
"""Characters of arguments that are looked at."""
_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class BegunCall(Protocol):
    """One call of a stream, as far as it has come."""

    looks: int
    """How often its arguments were looked at; 0 in the beginning."""

    @property
    def text(self) -> str:
        """Its arguments so far."""
        ...

    @property
    def size(self) -> int:
        """Characters of these."""
        ...


def begins_another(call: BegunCall, arguments: object) -> bool:
    """Whether a piece with a name begins another call, although nothing but that says so: it has arguments, and those
    of the call before are whole.
    """
    if not arguments or (isinstance(arguments, str) and not arguments.strip()):
        return False
    if not call.size or call.size > MAX_LOOKED_AT or call.looks >= MAX_LOOKS:
        return False
    call.looks += 1
    try:
        _decode(call.text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True
