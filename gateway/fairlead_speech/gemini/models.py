"""Models of Gemini Live: how each takes other tools in the middle of a session, and how it calls them. Pure module.

Source: Live API guides of the models (function calling, session management), autumn 2026.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

BLOCKING: Final = "BLOCKING"
"""The model waits for the result of a call."""
NON_BLOCKING: Final = "NON_BLOCKING"
"""The model goes on meanwhile."""


class LiveModel(msgspec.Struct, frozen=True):
    """Abilities of one model."""

    context_update: bool
    """Whether `contextUpdate` replaces the tools of a session that runs; else that takes a new one by its handle."""
    behaviors: tuple[str, ...] = ()
    """Words of a function's declaration for how it is called; none where the model knows one way alone."""
    takes_content: bool = True
    """Whether `clientContent` tells it of what was said elsewhere; else it closes the session for that (1007)."""

    def without_update(self) -> LiveModel:
        """This model, taking no `contextUpdate`."""
        return msgspec.structs.replace(self, context_update=False)


_VERSION: Final = re.compile(r"gemini-(?:[a-z]+-)*(\d{1,3})(?:[.-](\d{1,3}))?(?![\d])")
_TABLE: Final = (
    ((3, 8), LiveModel(True, (BLOCKING, NON_BLOCKING))),
    ((3, 0), LiveModel(False, takes_content=False)),
    ((2, 0), LiveModel(False, (BLOCKING, NON_BLOCKING))),
)
"""By the first version that has these abilities."""
_OTHER: Final = LiveModel(False)
_EXTENDED: Final = "extended-thinking"
_NEVER_WAITS: Final = LiveModel(True, (NON_BLOCKING,))


def live_model(name: str) -> LiveModel:
    """Abilities of the model of that name; a newer one than is known here has those of the newest."""
    found = _VERSION.search(name)
    version = (0, 0) if found is None else (int(found[1]), int(found[2] or 0))
    abilities = next((model for first, model in _TABLE if version >= first), _OTHER)
    return _NEVER_WAITS if abilities.context_update and _EXTENDED in name else abilities
