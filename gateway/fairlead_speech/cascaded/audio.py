"""Audio of a session: PCM of 24 kHz, 16 bits, mono, little-endian. Pure module."""

from __future__ import annotations

import array
import base64
import binascii
import struct
import sys
from typing import Final

RATE: Final = 24_000
BYTES_PER_MS: Final = RATE * 2 // 1000
_EVERY: Final = 4
"""One of so many samples is looked at: 6 kHz are enough for loudness, in a quarter of the time."""
_FULL_SCALE: Final = 32768


class BadAudio(ValueError):
    """Audio that is no base64, or no whole number of samples."""


def decoded(text: str) -> bytes:
    """Audio from base64 of either alphabet. Raises BadAudio."""
    try:
        return base64.b64decode(text.translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadAudio("audio must be base64") from error


def milliseconds(audio: bytes | int) -> int:
    """Length of audio, or of so many bytes of it."""
    return (audio if isinstance(audio, int) else len(audio)) // BYTES_PER_MS


def loudness(audio: bytes) -> float:
    """Mean amplitude from 0 to 1."""
    samples = array.array("h", audio[: len(audio) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    some = samples[::_EVERY]
    return sum(map(abs, some)) / len(some) / _FULL_SCALE if some else 0.0


def wav(audio: bytes, rate: int = RATE) -> bytes:
    """A WAV file (RIFF) with that audio, of `rate` samples a second."""
    head = b"RIFF" + struct.pack("<I", 36 + len(audio)) + b"WAVE"
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16)
    return head + form + b"data" + struct.pack("<I", len(audio)) + audio


_STANDARD: Final = str.maketrans("-_", "+/")
