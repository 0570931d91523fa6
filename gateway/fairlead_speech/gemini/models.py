"""Capabilities of Gemini Live models: changing tools during a session, and calling functions. Does no I/O.

While a model waits for the result of a function call, it is silent, which is acceptable for short calls. For longer
calls, the model is told to continue speaking and to report the result later. Source: Live API guides of the models
(function calling, session management), autumn 2026.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead_speech.tools import MAX_NAMES, ToolTraits

BLOCKING: Final = "BLOCKING"
"""Value of `behavior`: the model waits for the result of a call."""
NON_BLOCKING: Final = "NON_BLOCKING"
"""Value of `behavior`: the model continues during a call."""
_VERSION: Final = re.compile(r"gemini-(?:[a-z]+-)*(\d{1,3})(?:[.-](\d{1,3}))?(?![\d])")
_EXTENDED_THINKING: Final = "extended-thinking"
MAX_WAIT_MS: Final = 1000.0
"""Usual duration of a tool's calls, in milliseconds, up to which the model waits for their results."""
WAIT: Final = "Wait"
WHEN_IDLE: Final = "WHEN_IDLE"
_SCHEDULINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"WhenIdle": WHEN_IDLE, "Interrupt": "INTERRUPT", "Silent": "SILENT"}
)
"""`scheduling` of a function's result, by the value of `speech` in the manifest of an McpServer."""


class LiveModel(msgspec.Struct, frozen=True):
    """Capabilities of one model."""

    context_update: bool
    """Whether `contextUpdate` can replace the tools of a running session. If not, the session must be resumed over a
    new connection.
    """
    behaviors: tuple[str, ...] = ()
    """Values that the model accepts for `behavior` in a function's declaration; empty if the model does not know
    `behavior`.
    """
    takes_content: bool = True
    """Whether the model accepts `clientContent` after the first turn. If not, the provider closes the session (code
    1007)."""

    def without_update(self) -> LiveModel:
        """Copy of the capabilities without `contextUpdate`."""
        return msgspec.structs.replace(self, context_update=False)


_CAPABILITIES: Final = (
    ((3, 8), LiveModel(True, (BLOCKING, NON_BLOCKING))),
    ((3, 0), LiveModel(False, takes_content=False)),
    ((2, 0), LiveModel(False, (BLOCKING, NON_BLOCKING))),
)
"""Capabilities by the first model version that has them, newest version first."""
_OLDER_MODEL: Final = LiveModel(False)
_EXTENDED_THINKING_MODEL: Final = LiveModel(True, (NON_BLOCKING,))


def live_model(name: str) -> LiveModel:
    """Capabilities of the model with a name. Versions newer than the table have the values of the newest entry."""
    match = _VERSION.search(name)
    version = (0, 0) if match is None else (int(match[1]), int(match[2] or 0))
    capabilities = next((model for first_version, model in _CAPABILITIES if version >= first_version), _OLDER_MODEL)
    return _EXTENDED_THINKING_MODEL if capabilities.context_update and _EXTENDED_THINKING in name else capabilities


class CallMode(msgspec.Struct, frozen=True):
    """Whether the model waits for a tool's results, and when it speaks about them: value of `behavior` in the
    function's declaration, and of `scheduling` in the results of its calls. An empty value is left out.
    """

    behavior: str = ""
    scheduling: str = ""


class CallModes:
    """Call modes of the tools of one session. A tool keeps its mode for the whole session, even if its measured latency
    changes: another mode would change the list of tools that the provider has.
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
    """Choose the call mode of a tool by the setting in its McpServer, else by the usual duration of its calls. Modes
    that the model does not support are not chosen.
    """
    is_blocking = traits.speech == WAIT if traits.speech else (traits.usual_ms or 0.0) <= MAX_WAIT_MS
    if not model.behaviors:
        return CallMode()
    if BLOCKING in model.behaviors and (is_blocking or NON_BLOCKING not in model.behaviors):
        return CallMode(BLOCKING)
    return CallMode(NON_BLOCKING, _SCHEDULINGS.get(traits.speech or "", WHEN_IDLE))
