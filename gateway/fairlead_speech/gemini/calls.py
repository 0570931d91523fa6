"""How a model of Gemini Live makes calls of a tool, and when it says their results. Pure module.

A model that waits says nothing meanwhile: that is right for what takes a moment. For what takes longer it goes on, and
the result is said once it has finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead_speech.gemini.models import BLOCKING, NON_BLOCKING, LiveModel
from fairlead_speech.own_names import MOST_NAMES
from fairlead_speech.toolbox import ToolTraits

MOST_WAIT_MS: Final = 1000.0
"""Usual duration of a call up to which the model waits for it."""
WAIT: Final = "Wait"
WHEN_IDLE: Final = "WHEN_IDLE"
_SCHEDULINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"WhenIdle": WHEN_IDLE, "Interrupt": "INTERRUPT", "Silent": "SILENT"}
)
"""By the setting of an McpServer."""


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

    def of(self, name: str) -> CallMode:
        """The mode of a tool, by the name that the model sees."""
        found = self._modes.get(name)
        if found is None:
            found = call_mode(self._model, self._get_traits(name))
            if len(self._modes) >= MOST_NAMES:
                self._modes.pop(next(iter(self._modes)))
            self._modes[name] = found
        return found

    def behavior(self, name: str) -> str:
        """Word of a tool's declaration."""
        return self.of(name).behavior


def call_mode(model: LiveModel, traits: ToolTraits) -> CallMode:
    """The mode of a tool: by its setting, else by how long it usually takes, as far as the model can."""
    waits = traits.speech == WAIT if traits.speech else (traits.usual_ms or 0.0) <= MOST_WAIT_MS
    if not model.behaviors:
        return CallMode()
    if BLOCKING in model.behaviors and (waits or NON_BLOCKING not in model.behaviors):
        return CallMode(BLOCKING)
    return CallMode(NON_BLOCKING, _SCHEDULINGS.get(traits.speech or "", WHEN_IDLE))
