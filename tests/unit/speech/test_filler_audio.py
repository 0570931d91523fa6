"""Audio of phrases is cached only for the engine's configured voice, and only if it is not empty."""

from __future__ import annotations

from fairlead_speech.cascaded.fillers import MAX_CACHED_BYTES, MAX_PHRASE_BYTES, FillerAudio


def test_a_phrase_that_was_mute_once_is_not_mute_for_ever() -> None:
    audio = FillerAudio("ann")
    audio.add("Hm.", "ann", 1, b"")
    assert audio.audio("Hm.", "ann", 1) is None
    audio.add("Hm.", "ann", 1, b"12")
    assert audio.audio("Hm.", "ann", 1) == b"12"


def test_voices_and_speeds_of_clients_take_no_room() -> None:
    audio = FillerAudio("ann")
    audio.add("Hm.", "ann", 1, b"12")
    for number in range(MAX_CACHED_BYTES // MAX_PHRASE_BYTES + 2):
        audio.add("Hm.", f"voice {number}", 1, bytes(MAX_PHRASE_BYTES))
        audio.add("Hm.", "ann", 1 + number / 100 + 0.01, bytes(MAX_PHRASE_BYTES))
    assert (audio.audio("Hm.", "ann", 1), audio.audio("Hm.", "voice 1", 1)) == (b"12", None)


def test_filler_audio_that_was_not_said_for_longest_makes_way() -> None:
    audio = FillerAudio("ann")
    for number in range(MAX_CACHED_BYTES // MAX_PHRASE_BYTES + 1):
        audio.add(str(number), "ann", 1, bytes(MAX_PHRASE_BYTES))
    assert (audio.audio("0", "ann", 1), audio.audio("1", "ann", 1)) == (None, bytes(MAX_PHRASE_BYTES))
