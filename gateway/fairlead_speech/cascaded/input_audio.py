"""Input audio buffer of a session, and its voice activity detection. Pure module.

Speech is found by loudness: a level follows the noise of the room, with hysteresis. What is clearly louder for a while
is speech, and what is clearly quieter for longer is its end. It needs no model and no library; a room with voices in
the background, or music, wants a client that detects turns itself (`turn_detection: null`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_speech.cascaded.audio import BYTES_PER_MS, RATE, loudness

MAX_BYTES: Final = 12 << 20
"""Bytes of audio of one session that wait for transcription: 4 minutes."""
MIN_TURN_MS: Final = 100
"""Least audio of a turn that a client commits, in milliseconds."""
WINDOW_MS: Final = 20
WINDOW_BYTES: Final = WINDOW_MS * BYTES_PER_MS
_START_WINDOWS: Final = 2
"""Loud windows in a row that begin speech: a single one is a knock."""
_LEVEL: Final = 0.012
"""Loudness of speech at the threshold 0.5: quiet speech close to a microphone has 0.02, a silent room 0.001."""
_ABOVE_NOISE: Final = 3.0
_HYSTERESIS: Final = 0.6
"""Share of the level below which speech ends."""
_RISE: Final = 1.02
"""Growth of the noise level in each window that is louder: it doubles in 0.7 s."""
_MAX_NOISE: Final = 0.02


class InputAudioBuffer:
    """Audio of the turn in progress, and detection of where turns begin and end."""

    def __init__(self, settings: DetectionSettings | None, rate: int = RATE) -> None:
        """`rate`: samples a second."""
        self.rate = rate
        self._window = rate * WINDOW_MS // 1000 * 2
        self._audio = bytearray()
        self._rest = b""
        self._before: deque[bytes] = deque()
        """Last windows before speech, for `prefix_padding_ms`."""
        self._received = 0
        """Bytes of audio of the whole session."""
        self.activity: VoiceActivity | None = None
        """Detection of turns; None: the client commits them."""
        self.waiting = 0
        """Bytes of earlier turns that wait for transcription."""
        self.detect(settings)

    @property
    def milliseconds(self) -> int:
        """Length of the session's audio."""
        return self._received * 1000 // (self.rate * 2)

    @property
    def speaking(self) -> bool:
        """Whether the detection has found speech that has not ended."""
        return self.activity is not None and self.activity.speaking

    def detect(self, settings: DetectionSettings | None) -> None:
        """Detect turns by these settings from now on; None: not at all."""
        self.activity = None if settings is None else VoiceActivity(settings)
        self._before.clear()

    @property
    def room(self) -> int:
        """Bytes of audio for which there is room."""
        return max(MAX_BYTES - len(self._audio) - self.waiting, 0)

    def windows(self, audio: bytes) -> list[bytes]:
        """Split audio into windows for `add_window`; the rest waits. Without detection all of it is buffered."""
        if self.activity is None:
            self._received += len(audio)
            self._audio += audio
            return []
        whole = self._rest + audio
        size = self._window
        end = len(whole) // size * size
        self._rest = whole[end:]
        return [whole[start : start + size] for start in range(0, end, size)]

    def add_window(self, window: bytes) -> bool | None:
        """Buffer a window: True where speech begins, False where it ends, None where nothing changes."""
        activity = self.activity
        if activity is None:
            self._audio += window
            return None
        self._received += len(window)
        before = activity.speaking
        change = activity.add_window(window)
        if before or change:
            if change:
                self._audio += b"".join(self._before)
                self._before.clear()
            self._audio += window
        else:
            self._before.append(window)
            while len(self._before) * WINDOW_MS > max(activity.settings.prefix_padding_ms, WINDOW_MS):
                self._before.popleft()
        return change

    def take_turn(self) -> bytes:
        """Take the audio of the turn, which ends. An incomplete window begins the next turn: without it, half of a
        sample could be missing.
        """
        rest, audio = self._rest, bytes(self._audio)
        self.clear()
        self._rest = rest
        return audio

    def take_partial(self) -> bytes:
        """Take the audio of the turn so far; the turn goes on."""
        audio = bytes(self._audio)
        self._audio.clear()
        return audio

    def clear(self) -> None:
        """Drop the audio of the turn."""
        self._audio.clear()
        self._rest = b""
        self._before.clear()
        if self.activity is not None:
            self.activity.end()

    def __len__(self) -> int:
        return len(self._audio)


class DetectionSettings(msgspec.Struct, frozen=True):
    """Members of `turn_detection` that are read, with the API's defaults."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True


def detection_settings(turn_detection: Mapping[str, Any]) -> DetectionSettings:
    """Read a client's `turn_detection`. Raises ValueError."""
    if turn_detection.get("type", "server_vad") != "server_vad":
        raise ValueError("of turn_detection there is server_vad alone here; null leaves turns to the client")
    given = {name: value for name, value in turn_detection.items() if value is not None}
    settings = msgspec.convert(given, DetectionSettings)
    if not (0 <= settings.threshold <= 1 and 0 <= settings.prefix_padding_ms <= 5000):
        raise ValueError("threshold is from 0 to 1, prefix_padding_ms from 0 to 5000")
    if not 100 <= settings.silence_duration_ms <= 10_000:
        raise ValueError("silence_duration_ms is from 100 to 10000")
    return settings


class VoiceActivity:
    """Voice activity detection of one session, window by window."""

    def __init__(self, settings: DetectionSettings) -> None:
        self.settings = settings
        self.speaking = False
        self._noise = _LEVEL / _ABOVE_NOISE / 2
        self._loud = 0
        self._quiet_ms = 0

    def add_window(self, window: bytes) -> bool | None:
        """Measure WINDOW_MS of audio: True where speech begins, False where it ends, None where nothing changes."""
        volume = loudness(window)
        level = max(_LEVEL * 2 * self.settings.threshold, self._noise * _ABOVE_NOISE)
        if not self.speaking:
            self._noise = min(volume, self._noise * _RISE, _MAX_NOISE) if volume < level else self._noise
            self._noise = max(self._noise, 1e-5)
            self._loud = self._loud + 1 if volume >= level else 0
            if self._loud < _START_WINDOWS:
                return None
            self.speaking = True
            self._loud = 0
            self._quiet_ms = 0
            return True
        self._quiet_ms = self._quiet_ms + WINDOW_MS if volume < level * _HYSTERESIS else 0
        if self._quiet_ms < self.settings.silence_duration_ms:
            return None
        self.end()
        return False

    def end(self) -> None:
        """End the speech, if there is some."""
        self.speaking = False
        self._loud = 0
        self._quiet_ms = 0
