"""Audio that a user sends: what is kept of it for the next turn, bounded in bytes. Pure module."""

from __future__ import annotations

from collections import deque
from typing import Final

from fairlead_speech.cascaded.audio import RATE
from fairlead_speech.cascaded.voice_activity import WINDOW_MS, DetectionSettings, VoiceActivity

MOST: Final = 12 << 20
"""Bytes of audio of one session that wait to be heard: 4 minutes."""
LEAST_MS: Final = 100
"""Audio of a turn that a client ends."""


class InputBuffer:
    """Audio of the turn that is being spoken, and where turns begin and end."""

    def __init__(self, settings: DetectionSettings | None, rate: int = RATE) -> None:
        """`rate`: samples a second."""
        self.rate = rate
        self._window = rate * WINDOW_MS // 1000 * 2
        self._audio = bytearray()
        self._rest = b""
        self._before: deque[bytes] = deque()
        """The last windows in front of speech."""
        self._heard = 0
        """Bytes of the whole session."""
        self.activity: VoiceActivity | None = None
        """None: the client says where turns end."""
        self.waiting = 0
        """Bytes of earlier turns that are not heard yet."""
        self.detect(settings)

    @property
    def milliseconds(self) -> int:
        """Time of the session's audio."""
        return self._heard * 1000 // (self.rate * 2)

    @property
    def speaking(self) -> bool:
        """Whether a turn is being spoken, as far as that is found here."""
        return self.activity is not None and self.activity.speaking

    def detect(self, settings: DetectionSettings | None) -> None:
        """Find turns by these settings from now on."""
        self.activity = None if settings is None else VoiceActivity(settings)
        self._before.clear()

    @property
    def room(self) -> int:
        """Bytes of audio that may come."""
        return max(MOST - len(self._audio) - self.waiting, 0)

    def windows(self, audio: bytes) -> list[bytes]:
        """Windows to look at for speech; what is left of audio waits. Without detection all of it is kept."""
        if self.activity is None:
            self._heard += len(audio)
            self._audio += audio
            return []
        whole = self._rest + audio
        size = self._window
        end = len(whole) // size * size
        self._rest = whole[end:]
        return [whole[start : start + size] for start in range(0, end, size)]

    def hear(self, window: bytes) -> bool | None:
        """Take a window: True where speech begins, False where it ends, None where nothing changes."""
        activity = self.activity
        if activity is None:
            self._audio += window
            return None
        self._heard += len(window)
        before = activity.speaking
        change = activity.hear(window)
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

    def take(self) -> bytes:
        """The audio of the turn; what follows is another one's. What is no whole window yet is its beginning: without
        it, half of a sample could be missing.
        """
        rest, audio = self._rest, bytes(self._audio)
        self.clear()
        self._rest = rest
        return audio

    def taken_so_far(self) -> bytes:
        """The audio of the turn up to now; the turn goes on."""
        audio = bytes(self._audio)
        self._audio.clear()
        return audio

    def clear(self) -> None:
        """Forget the audio of the turn."""
        self._audio.clear()
        self._rest = b""
        self._before.clear()
        if self.activity is not None:
            self.activity.end()

    def __len__(self) -> int:
        return len(self._audio)
