"""Functions for audio of a speech session: PCM with 24 kHz, 16 bits, mono, little-endian. Does no I/O."""

from __future__ import annotations

import array
import asyncio
import base64
import binascii
import struct
import sys
from typing import Final

RATE: Final = 24_000
BYTES_PER_MS: Final = RATE * 2 // 1000
_SAMPLE_STEP: Final = 4
"""Loudness is measured on every fourth sample only. These 6 kHz are enough, and take a quarter of the time."""
_FULL_SCALE: Final = 32768
_PIECE_LENGTH: Final = 1 << 20
"""Number of base64 characters that are decoded, in about 2 ms, before other tasks run. Divisible by 4, the length of a
base64 group.
"""
_NOT_BASE64: Final = "the audio of the event is not valid base64"
_TO_STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")


class BadAudio(ValueError):
    """Audio that is not valid base64."""


async def decode(text: str) -> bytes:
    """Decode audio from base64, standard or URL-safe, with pauses in which other tasks run. Raises BadAudio."""
    audio = bytearray()
    for start in range(0, len(text), _PIECE_LENGTH):
        if start:
            await asyncio.sleep(0)
        piece = text[start : start + _PIECE_LENGTH]
        if "=" in piece and start + _PIECE_LENGTH < len(text):  # padding is only allowed at the end
            raise BadAudio(_NOT_BASE64)
        try:
            audio += base64.b64decode(piece.translate(_TO_STANDARD_ALPHABET), validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadAudio(_NOT_BASE64) from error
    return bytes(audio)


def milliseconds(audio: bytes | int) -> int:
    """Duration of audio, given as bytes or as a number of bytes."""
    return (audio if isinstance(audio, int) else len(audio)) // BYTES_PER_MS


def loudness(audio: bytes) -> float:
    """Mean amplitude of audio, from 0 to 1."""
    samples = array.array("h", audio[: len(audio) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    measured_samples = samples[::_SAMPLE_STEP]
    return sum(map(abs, measured_samples)) / len(measured_samples) / _FULL_SCALE if measured_samples else 0.0


def wav(audio: bytes, rate: int = RATE) -> bytes:
    """Make a WAV file (RIFF) from audio with `rate` samples per second."""
    header = b"RIFF" + struct.pack("<I", 36 + len(audio)) + b"WAVE"
    format_chunk = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16)
    return header + format_chunk + b"data" + struct.pack("<I", len(audio)) + audio
