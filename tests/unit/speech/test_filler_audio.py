"""Audio of phrases is kept for the engine's own voice, and only where there is any."""

from __future__ import annotations

from fairlead_speech.cascaded.fillers import MOST_KEPT, MOST_PHRASE, FillerAudio


def test_a_phrase_that_was_mute_once_is_not_mute_for_ever() -> None:
    audio = FillerAudio("ann")
    audio.keep("Hm.", "ann", 1, b"")
    assert audio.kept("Hm.", "ann", 1) is None
    audio.keep("Hm.", "ann", 1, b"12")
    assert audio.kept("Hm.", "ann", 1) == b"12"


def test_voices_and_speeds_of_clients_take_no_room() -> None:
    audio = FillerAudio("ann")
    audio.keep("Hm.", "ann", 1, b"12")
    for number in range(MOST_KEPT // MOST_PHRASE + 2):
        audio.keep("Hm.", f"voice {number}", 1, bytes(MOST_PHRASE))
        audio.keep("Hm.", "ann", 1 + number / 100 + 0.01, bytes(MOST_PHRASE))
    assert (audio.kept("Hm.", "ann", 1), audio.kept("Hm.", "voice 1", 1)) == (b"12", None)


def test_filler_audio_that_was_not_said_for_longest_makes_way() -> None:
    audio = FillerAudio("ann")
    for number in range(MOST_KEPT // MOST_PHRASE + 1):
        audio.keep(str(number), "ann", 1, bytes(MOST_PHRASE))
    assert (audio.kept("0", "ann", 1), audio.kept("1", "ann", 1)) == (None, bytes(MOST_PHRASE))
