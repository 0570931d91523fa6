"""Models of Gemini Live: how each takes other tools in the middle of a session, and how it calls them. Pure module.

A model that waits for the result of a call says nothing meanwhile: that is right for what takes a moment. For what
takes longer it goes on, and the result is said once it has finished. Source: Live API guides of the models (function
calling, session management), autumn 2026.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead_speech.tools import MAX_NAMES, ToolTraits

BLOCKING: Final = "BLOCKING"
"""The model waits for the result of a call."""
NON_BLOCKING: Final = "NON_BLOCKING"
"""The model goes on meanwhile."""
_VERSION: Final = re.compile(r"gemini-(?:[a-z]+-)*(\d{1,3})(?:[.-](\d{1,3}))?(?![\d])")
_EXTENDED: Final = "extended-thinking"
MOST_WAIT_MS: Final = 1000.0
"""Usual duration of a call up to which the model waits for it."""
WAIT: Final = "Wait"
WHEN_IDLE: Final = "WHEN_IDLE"
_SCHEDULINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"WhenIdle": WHEN_IDLE, "Interrupt": "INTERRUPT", "Silent": "SILENT"}
)
"""By the setting of an McpServer."""


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


_TABLE: Final = (
    ((3, 8), LiveModel(True, (BLOCKING, NON_BLOCKING))),
    ((3, 0), LiveModel(False, takes_content=False)),
    ((2, 0), LiveModel(False, (BLOCKING, NON_BLOCKING))),
)
"""By the first version that has these abilities."""
_OTHER: Final = LiveModel(False)
_NEVER_WAITS: Final = LiveModel(True, (NON_BLOCKING,))


def live_model(name: str) -> LiveModel:
    """Abilities of the model of that name; a newer one than is known here has those of the newest."""
    match = _VERSION.search(name)
    version = (0, 0) if match is None else (int(match[1]), int(match[2] or 0))
    abilities = next((model for first, model in _TABLE if version >= first), _OTHER)
    return _NEVER_WAITS if abilities.context_update and _EXTENDED in name else abilities


class CallMode(msgspec.Struct, frozen=True):
    """Members of a declaration and of a result; empty ones are left out."""

    behavior: str = ""
    scheduling: str = ""


class CallModes:
    """Modes of the tools of one session. A tool keeps its mode, whatever is measured meanwhile: another one would be
    another list of tools.
    """

    def __init__(self, model: LiveModel, get_traits: Callable[[str], ToolTraits]) -> None:
        self._model = model
        self._get_traits = get_traits
        self._modes: dict[str, CallMode] = {}

    def mode(self, name: str) -> CallMode:
        """The mode of a tool, by the name that the model sees."""
        mode = self._modes.get(name)
        if mode is None:
            mode = call_mode(self._model, self._get_traits(name))
            if len(self._modes) >= MAX_NAMES:
                self._modes.pop(next(iter(self._modes)))
            self._modes[name] = mode
        return mode

    def behavior(self, name: str) -> str:
        """Word of a tool's declaration."""
        return self.mode(name).behavior


def call_mode(model: LiveModel, traits: ToolTraits) -> CallMode:
    """The mode of a tool: by its setting, else by how long it usually takes, as far as the model can."""
    waits = traits.speech == WAIT if traits.speech else (traits.usual_ms or 0.0) <= MOST_WAIT_MS
    if not model.behaviors:
        return CallMode()
    if BLOCKING in model.behaviors and (waits or NON_BLOCKING not in model.behaviors):
        return CallMode(BLOCKING)
    return CallMode(NON_BLOCKING, _SCHEDULINGS.get(traits.speech or "", WHEN_IDLE))
