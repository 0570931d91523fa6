"""Models of Gemini Live: how each accepts other tools during a session, and how it calls functions. Pure module.

A model that waits for the result of a call is silent meanwhile: that is right for what takes a moment. During longer
calls it goes on, and speaks of the result afterwards. Source: Live API guides of the models (function calling, session
management), autumn 2026.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead_speech.tools import MAX_NAMES, ToolTraits

BLOCKING: Final = "BLOCKING"
"""Behavior: the model waits for the result of a call."""
NON_BLOCKING: Final = "NON_BLOCKING"
"""Behavior: the model goes on meanwhile."""
_VERSION: Final = re.compile(r"gemini-(?:[a-z]+-)*(\d{1,3})(?:[.-](\d{1,3}))?(?![\d])")
_EXTENDED: Final = "extended-thinking"
MAX_WAIT_MS: Final = 1000.0
"""Usual duration of a call up to which the model waits for its result."""
WAIT: Final = "Wait"
WHEN_IDLE: Final = "WHEN_IDLE"
_SCHEDULINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"WhenIdle": WHEN_IDLE, "Interrupt": "INTERRUPT", "Silent": "SILENT"}
)
"""`scheduling` of a result, by the setting of an McpServer."""


class LiveModel(msgspec.Struct, frozen=True):
    """Abilities of one model."""

    context_update: bool
    """Whether `contextUpdate` replaces the tools of a running session; else that takes another connection, with a
    handle.
    """
    behaviors: tuple[str, ...] = ()
    """Values of `behavior` that a function's declaration may have; none where the model has no such member."""
    takes_content: bool = True
    """Whether `clientContent` may add to the conversation after the first turn; else the model closes the session
    (1007).
    """

    def without_update(self) -> LiveModel:
        """The model without `contextUpdate`."""
        return msgspec.structs.replace(self, context_update=False)


_TABLE: Final = (
    ((3, 8), LiveModel(True, (BLOCKING, NON_BLOCKING))),
    ((3, 0), LiveModel(False, takes_content=False)),
    ((2, 0), LiveModel(False, (BLOCKING, NON_BLOCKING))),
)
"""Abilities by the first version that has them."""
_OTHER: Final = LiveModel(False)
_NEVER_WAITS: Final = LiveModel(True, (NON_BLOCKING,))


def live_model(name: str) -> LiveModel:
    """Abilities of the model of a name; a version newer than the table has those of the newest one."""
    match = _VERSION.search(name)
    version = (0, 0) if match is None else (int(match[1]), int(match[2] or 0))
    abilities = next((model for first, model in _TABLE if version >= first), _OTHER)
    return _NEVER_WAITS if abilities.context_update and _EXTENDED in name else abilities


class CallMode(msgspec.Struct, frozen=True):
    """Members of a function's declaration and of its results; empty ones are left out."""

    behavior: str = ""
    scheduling: str = ""


class CallModes:
    """Modes of the tools of one session. A tool keeps its mode, whatever is measured meanwhile: another one would
    change the list of tools.
    """

    def __init__(self, model: LiveModel, get_traits: Callable[[str], ToolTraits]) -> None:
        self._model = model
        self._get_traits = get_traits
        self._modes: dict[str, CallMode] = {}

    def mode(self, name: str) -> CallMode:
        """Mode of a tool, by its name for the model."""
        mode = self._modes.get(name)
        if mode is None:
            mode = call_mode(self._model, self._get_traits(name))
            if len(self._modes) >= MAX_NAMES:
                self._modes.pop(next(iter(self._modes)))
            self._modes[name] = mode
        return mode

    def behavior(self, name: str) -> str:
        """`behavior` in the declaration of a tool."""
        return self.mode(name).behavior


def call_mode(model: LiveModel, traits: ToolTraits) -> CallMode:
    """Mode of a tool: by its setting, else by the usual duration of its calls, as far as the model supports it."""
    waits = traits.speech == WAIT if traits.speech else (traits.usual_ms or 0.0) <= MAX_WAIT_MS
    if not model.behaviors:
        return CallMode()
    if BLOCKING in model.behaviors and (waits or NON_BLOCKING not in model.behaviors):
        return CallMode(BLOCKING)
    return CallMode(NON_BLOCKING, _SCHEDULINGS.get(traits.speech or "", WHEN_IDLE))
