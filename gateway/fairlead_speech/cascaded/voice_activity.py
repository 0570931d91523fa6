"""Finds where a user speaks, by loudness. Pure module.

A level that follows the noise of the room, with hysteresis: what is clearly louder for a while is speech, and what is
clearly quieter for longer is its end. It needs no model and no library; a room with voices in the background, or music,
wants a client that finds turns itself (`turn_detection: null`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_speech.cascaded.audio import BYTES_PER_MS, loudness

WINDOW_MS: Final = 20
WINDOW_BYTES: Final = WINDOW_MS * BYTES_PER_MS
_START_WINDOWS: Final = 2
"""Loud windows in a row that are speech: one alone is a knock."""
_LEVEL: Final = 0.012
"""Loudness of speech at the threshold 0.5: quiet speech close to a microphone has 0.02, a silent room 0.001."""
_ABOVE_NOISE: Final = 3.0
_HYSTERESIS: Final = 0.6
"""Share of the level below which speech is over."""
_RISE: Final = 1.02
"""Growth of the noise level in each window that is louder: it doubles in 0.7 s."""
_MOST_NOISE: Final = 0.02


class DetectionSettings(msgspec.Struct, frozen=True):
    """Members of `turn_detection` that are read, with the API's defaults."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True


def detection(said: Mapping[str, Any]) -> DetectionSettings:
    """Settings that a client gave. Raises ValueError."""
    if said.get("type", "server_vad") != "server_vad":
        raise ValueError("of turn_detection there is server_vad alone here; null leaves turns to the client")
    given = {name: value for name, value in said.items() if value is not None}
    found = msgspec.convert(given, DetectionSettings)
    if not (0 <= found.threshold <= 1 and 0 <= found.prefix_padding_ms <= 5000):
        raise ValueError("threshold is from 0 to 1, prefix_padding_ms from 0 to 5000")
    if not 100 <= found.silence_duration_ms <= 10_000:
        raise ValueError("silence_duration_ms is from 100 to 10000")
    return found


class VoiceActivity:
    """Hears the audio of one session, window by window."""

    def __init__(self, settings: DetectionSettings) -> None:
        self.settings = settings
        self.speaking = False
        self._noise = _LEVEL / _ABOVE_NOISE / 2
        self._loud = 0
        self._quiet_ms = 0

    def hear(self, window: bytes) -> bool | None:
        """Take WINDOW_MS of audio: True where speech begins, False where it ends, None where nothing changes."""
        found = loudness(window)
        level = max(_LEVEL * 2 * self.settings.threshold, self._noise * _ABOVE_NOISE)
        if not self.speaking:
            self._noise = min(found, self._noise * _RISE, _MOST_NOISE) if found < level else self._noise
            self._noise = max(self._noise, 1e-5)
            self._loud = self._loud + 1 if found >= level else 0
            if self._loud < _START_WINDOWS:
                return None
            self.speaking = True
            self._loud = 0
            self._quiet_ms = 0
            return True
        self._quiet_ms = self._quiet_ms + WINDOW_MS if found < level * _HYSTERESIS else 0
        if self._quiet_ms < self.settings.silence_duration_ms:
            return None
        self.end()
        return False

    def end(self) -> None:
        """End the turn, if there is one."""
        self.speaking = False
        self._loud = 0
        self._quiet_ms = 0
