"""Input audio buffer of a session, with voice activity detection. Does no I/O.

Speech is detected by its loudness in comparison with a level that follows the noise of the room. Audio clearly above
the level begins speech, and audio clearly below it for `silence_duration_ms` ends speech. The detection needs no model
or library. In a room with music or with voices in the background, the client should detect turns (`turn_detection:
null`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_speech.cascaded.audio import BYTES_PER_MS, RATE, loudness

MAX_BYTES: Final = 12 << 20
"""Maximum number of bytes of audio that wait for transcription in one session: 4 minutes."""
MIN_TURN_MS: Final = 100
"""Minimum duration of a turn that a client commits, in milliseconds."""
WINDOW_MS: Final = 20
"""Duration of one measurement of loudness in milliseconds."""
WINDOW_BYTES: Final = WINDOW_MS * BYTES_PER_MS
_START_WINDOWS: Final = 2
"""Number of consecutive loud windows that begin speech. A single loud window may be a knock."""
_SPEECH_LEVEL: Final = 0.012
"""Loudness (mean amplitude, 0 to 1) from which audio is speech, at the threshold 0.5. Quiet speech close to a
microphone has 0.02, a silent room 0.001.
"""
_SPEECH_TO_NOISE: Final = 3.0
"""Factor by which speech has to be louder than the noise of the room."""
_HYSTERESIS: Final = 0.6
"""Fraction of the level below which audio counts as silence during speech."""
_NOISE_GROWTH: Final = 1.02
"""Factor by which the noise level grows with each window that is louder than the level. At this rate, the level doubles
in 0.7 s.
"""
_MAX_NOISE: Final = 0.02
"""Maximum noise level, as loudness."""


class InputAudioBuffer:
    """Audio of the turn in progress, with detection of the beginning and the end of turns."""

    def __init__(self, settings: DetectionSettings | None, rate: int = RATE) -> None:
        """`rate`: samples per second."""
        self.rate = rate
        self._window_bytes = rate * WINDOW_MS // 1000 * 2
        self._audio = bytearray()
        self._partial_window = b""
        self._padding: deque[bytes] = deque()
        """Windows before the beginning of speech. Up to `prefix_padding_ms` of them become part of the turn."""
        self._received_bytes = 0
        """Bytes of audio received in the whole session."""
        self.activity: VoiceActivity | None = None
        """Detection of turns; None if the client marks the end of turns."""
        self.transcribing_bytes = 0
        """Bytes of earlier turns whose transcription is not complete. They count towards the size of the buffer."""
        self.detect(settings)

    @property
    def milliseconds(self) -> int:
        """Duration of all audio that the session has received."""
        return self._received_bytes * 1000 // (self.rate * 2)

    @property
    def speaking(self) -> bool:
        """Whether detected speech is in progress."""
        return self.activity is not None and self.activity.speaking

    def detect(self, settings: DetectionSettings | None) -> None:
        """Detect turns with these settings from now on. None: stop detecting turns."""
        self.activity = None if settings is None else VoiceActivity(settings)
        self._padding.clear()

    @property
    def room(self) -> int:
        """Free space for audio in bytes."""
        return max(MAX_BYTES - len(self._audio) - self.transcribing_bytes, 0)

    def windows(self, audio: bytes) -> list[bytes]:
        """Split audio into windows for `add_window`. The rest, which is shorter than a window, waits for the next
        audio. Without detection of turns, all audio is buffered directly and no window is returned.
        """
        if self.activity is None:
            self._received_bytes += len(audio)
            self._audio += audio
            return []
        pending = self._partial_window + audio
        size = self._window_bytes
        end = len(pending) // size * size
        self._partial_window = pending[end:]
        return [pending[start : start + size] for start in range(0, end, size)]

    def add_window(self, window: bytes) -> bool | None:
        """Buffer a window. Returns True if speech begins, False if speech ends, else None."""
        activity = self.activity
        if activity is None:
            self._audio += window
            return None
        self._received_bytes += len(window)
        was_speaking = activity.speaking
        change = activity.add_window(window)
        if was_speaking or change:
            if change:
                self._audio += b"".join(self._padding)
                self._padding.clear()
            self._audio += window
        else:
            self._padding.append(window)
            while len(self._padding) * WINDOW_MS > max(activity.settings.prefix_padding_ms, WINDOW_MS):
                self._padding.popleft()
        return change

    def take_turn(self) -> bytes:
        """End the turn and return its audio. An incomplete window is left for the next turn: if the window ended within
        a sample, the next turn would otherwise begin with the rest of the sample.
        """
        partial, audio = self._partial_window, bytes(self._audio)
        self.clear()
        self._partial_window = partial
        return audio

    def take_partial(self) -> bytes:
        """Remove and return the audio of the turn so far, without ending the turn."""
        audio = bytes(self._audio)
        self._audio.clear()
        return audio

    def clear(self) -> None:
        """Drop the audio of the turn."""
        self._audio.clear()
        self._partial_window = b""
        self._padding.clear()
        if self.activity is not None:
            self.activity.end()

    def __len__(self) -> int:
        return len(self._audio)


class DetectionSettings(msgspec.Struct, frozen=True):
    """Supported members of `turn_detection` in the Realtime API, with the API's defaults."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True


def detection_settings(turn_detection: Mapping[str, Any]) -> DetectionSettings:
    """Read a client's `turn_detection`. Raises ValueError."""
    if turn_detection.get("type", "server_vad") != "server_vad":
        raise ValueError("turn_detection.type must be server_vad; with turn_detection null, the client commits turns")
    present_members = {name: value for name, value in turn_detection.items() if value is not None}
    settings = msgspec.convert(present_members, DetectionSettings)
    if not (0 <= settings.threshold <= 1 and 0 <= settings.prefix_padding_ms <= 5000):
        raise ValueError("threshold must be from 0 to 1, prefix_padding_ms from 0 to 5000")
    if not 100 <= settings.silence_duration_ms <= 10_000:
        raise ValueError("silence_duration_ms must be from 100 to 10000")
    return settings


class VoiceActivity:
    """Voice activity detection of one session, which measures audio by windows of WINDOW_MS."""

    def __init__(self, settings: DetectionSettings) -> None:
        self.settings = settings
        self.speaking = False
        self._noise_level = _SPEECH_LEVEL / _SPEECH_TO_NOISE / 2
        self._loud_windows = 0
        self._quiet_ms = 0

    def add_window(self, window: bytes) -> bool | None:
        """Measure WINDOW_MS of audio. Returns True if speech begins, False if speech ends, else None."""
        volume = loudness(window)
        level = max(_SPEECH_LEVEL * 2 * self.settings.threshold, self._noise_level * _SPEECH_TO_NOISE)
        if not self.speaking:
            self._noise_level = (
                min(volume, self._noise_level * _NOISE_GROWTH, _MAX_NOISE) if volume < level else self._noise_level
            )
            self._noise_level = max(self._noise_level, 1e-5)
            self._loud_windows = self._loud_windows + 1 if volume >= level else 0
            if self._loud_windows < _START_WINDOWS:
                return None
            self.speaking = True
            self._loud_windows = 0
            self._quiet_ms = 0
            return True
        self._quiet_ms = self._quiet_ms + WINDOW_MS if volume < level * _HYSTERESIS else 0
        if self._quiet_ms < self.settings.silence_duration_ms:
            return None
        self.end()
        return False

    def end(self) -> None:
        """End the speech in progress, if there is any."""
        self.speaking = False
        self._loud_windows = 0
        self._quiet_ms = 0
