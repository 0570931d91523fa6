"""Audio counts as speech if it is clearly louder than the room for a while."""

from __future__ import annotations

import random
import struct

import pytest

from fairlead_speech.cascaded.input_audio import (
    WINDOW_BYTES,
    DetectionSettings,
    InputAudioBuffer,
    VoiceActivity,
    detection_settings,
)

SAMPLES = WINDOW_BYTES // 2


def noise(level: float, seed: int = 1) -> bytes:
    """A window of noise with the given mean amplitude, from 0 to 1."""
    random.seed(seed)
    most = level * 2 * 32767
    return struct.pack(f"<{SAMPLES}h", *(round(random.uniform(-most, most)) for _ in range(SAMPLES)))


def changes(windows: list[bytes], **settings: float) -> list[tuple[int, bool]]:
    activity = VoiceActivity(detection_settings(settings))
    heard = [(number, activity.add_window(window)) for number, window in enumerate(windows)]
    return [(number, change) for number, change in heard if change is not None]


def test_a_turn_begins_with_speech_and_ends_after_silence() -> None:
    assert changes([noise(0.001)] * 10 + [noise(0.05)] * 20 + [noise(0.001)] * 40) == [(11, True), (54, False)]


def test_a_pause_is_not_an_end() -> None:
    talk = [noise(0.05)] * 10
    assert len(changes(talk + [noise(0.001)] * 20 + talk + [noise(0.001)] * 30)) == 2


def test_a_knock_is_not_speech() -> None:
    assert changes([noise(0.001)] * 5 + [noise(0.3)] + [noise(0.001)] * 5) == []


def test_a_loud_room_is_not_speech_and_hides_none() -> None:
    room = [noise(0.011, seed) for seed in range(200)]
    changed = changes(room + [noise(0.08)] * 20 + room[:40])
    assert [change for _, change in changed] == [True, False]
    assert changed[0][0] >= 200


def test_the_threshold_is_the_clients() -> None:
    quiet = [noise(0.015)] * 20
    assert changes(quiet)
    assert not changes(quiet, threshold=0.9)


@pytest.mark.parametrize("settings", [{"type": "semantic_vad"}, {"threshold": 2}, {"silence_duration_ms": 1}])
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"turn_detection|threshold|silence"):
        detection_settings(settings)


def test_a_turn_has_what_was_before_it_and_silence_is_not_kept() -> None:
    buffer = InputAudioBuffer(DetectionSettings(prefix_padding_ms=40))
    quiet = noise(0.001)
    loud = noise(0.05)
    for window in [quiet] * 1000:
        buffer.add_window(window)
    assert len(buffer) == 0
    assert [buffer.add_window(window) for window in [loud] * 3] == [None, True, None]
    assert buffer.take_turn() == quiet + loud * 3, "40 ms in front of where it was found"
    assert buffer.milliseconds == 1003 * 20


def test_audio_in_pieces_of_any_length_is_buffered_alike() -> None:
    buffer = InputAudioBuffer(DetectionSettings())
    whole = noise(0.05) * 10
    for start in range(0, len(whole), 700):
        for window in buffer.windows(whole[start : start + 700]):
            buffer.add_window(window)
    assert buffer.take_turn() == whole[: len(whole) // WINDOW_BYTES * WINDOW_BYTES]
