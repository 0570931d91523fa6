"""Capabilities of Gemini Live models: changing tools during a session, and calling functions. Does no I/O.

A model that waits for the result of a call is silent until then, which is acceptable for short calls. For longer calls,
the model is told to continue speaking, and to report the result later. Source: Live API guides of the models (function
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
"""Behavior of a model that waits for the result of a call."""
NON_BLOCKING: Final = "NON_BLOCKING"
"""Behavior of a model that continues during a call."""
_VERSION: Final = re.compile(r"gemini-(?:[a-z]+-)*(\d{1,3})(?:[.-](\d{1,3}))?(?![\d])")
_EXTENDED: Final = "extended-thinking"
MAX_WAIT_MS: Final = 1000.0
"""Usual duration of a tool's calls, in milliseconds, up to which the model waits for the result."""
WAIT: Final = "Wait"
WHEN_IDLE: Final = "WHEN_IDLE"
_SCHEDULINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"WhenIdle": WHEN_IDLE, "Interrupt": "INTERRUPT", "Silent": "SILENT"}
)
"""`scheduling` of a result, by the value of the setting in an McpServer."""


class LiveModel(msgspec.Struct, frozen=True):
    """Capabilities of one model."""

    context_update: bool
    """Whether `contextUpdate` can replace the tools of a running session. Otherwise the session must be resumed over
    another connection.
    """
    behaviors: tuple[str, ...] = ()
    """Values that `behavior` may have in a function's declaration; empty if the model has no such member."""
    takes_content: bool = True
    """Whether `clientContent` may be sent after the first turn. Otherwise the model closes the session (1007)."""

    def without_update(self) -> LiveModel:
        """Copy of the capabilities without `contextUpdate`."""
        return msgspec.structs.replace(self, context_update=False)


_TABLE: Final = (
    ((3, 8), LiveModel(True, (BLOCKING, NON_BLOCKING))),
    ((3, 0), LiveModel(False, takes_content=False)),
    ((2, 0), LiveModel(False, (BLOCKING, NON_BLOCKING))),
)
"""Capabilities by the first version that has them, newest version first."""
_OTHER: Final = LiveModel(False)
_NEVER_WAITS: Final = LiveModel(True, (NON_BLOCKING,))


def live_model(name: str) -> LiveModel:
    """Capabilities of the model with a name. Versions newer than the table have those of the newest entry."""
    match = _VERSION.search(name)
    version = (0, 0) if match is None else (int(match[1]), int(match[2] or 0))
    capabilities = next((model for first, model in _TABLE if version >= first), _OTHER)
    return _NEVER_WAITS if capabilities.context_update and _EXTENDED in name else capabilities


class CallMode(msgspec.Struct, frozen=True):
    """Values of `behavior` in a function's declaration and `scheduling` in its results; empty: the
    member is omitted.
    """

    behavior: str = ""
    scheduling: str = ""


class CallModes:
    """Call modes of the tools of one session. A tool keeps its mode for the session even if its measured latency
    changes, as another mode would change the list of tools.
    """

    def __init__(self, model: LiveModel, get_traits: Callable[[str], ToolTraits]) -> None:
        self._model = model
        self._get_traits = get_traits
        self._modes: dict[str, CallMode] = {}

    def mode(self, name: str) -> CallMode:
        """Call mode of a tool, by the name under which the model calls it."""
        mode = self._modes.get(name)
        if mode is None:
            mode = call_mode(self._model, self._get_traits(name))
            if len(self._modes) >= MAX_NAMES:
                self._modes.pop(next(iter(self._modes)))
            self._modes[name] = mode
        return mode

    def behavior(self, name: str) -> str:
        """`behavior` in the declaration of a tool; empty: the member is omitted."""
        return self.mode(name).behavior


def call_mode(model: LiveModel, traits: ToolTraits) -> CallMode:
    """Choose the call mode of a tool by its setting, else by the usual duration of its calls, within the capabilities
    of the model.
    """
    waits = traits.speech == WAIT if traits.speech else (traits.usual_ms or 0.0) <= MAX_WAIT_MS
    if not model.behaviors:
        return CallMode()
    if BLOCKING in model.behaviors and (waits or NON_BLOCKING not in model.behaviors):
        return CallMode(BLOCKING)
    return CallMode(NON_BLOCKING, _SCHEDULINGS.get(traits.speech or "", WHEN_IDLE))
