"""Token counts of images and audio, as the providers count them. Pure module.

An image's size is read from the beginning of its data. An image whose size cannot be read counts `MAX_IMAGE_TOKENS`
tokens at every provider: Anthropic's maximum, more than OpenAI's, and enough for Gemini's six tiles of an image of
16:9. For an image scaled to at most 1,568 pixels a side, Anthropic counts one token per 750 pixels ("Vision", image
costs). OpenAI counts 85 tokens, and 170 per tile of 512 pixels ("Images and vision", GPT-4o). Gemini counts 258 per
tile ("Understand and count tokens"). Audio is counted as by Gemini: 32 tokens a second, which is more than at the other
two providers.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable
from typing import Final

from fairlead_formats.tokens.conversation import AUDIO_BYTES_PER_TOKEN, MAX_IMAGE_TOKENS

ANTHROPIC: Final = "anthropic"
OPENAI: Final = "openai"
GEMINI: Final = "gemini"
PROVIDERS: Final = (ANTHROPIC, OPENAI, GEMINI)
HEAD: Final = 96 << 10
"""Maximum number of base64 characters that are searched for the image's size. A JPEG may begin with a preview, which
precedes the size.
"""
WAV_TOKENS_PER_SECOND: Final = 32
"""Tokens per second of a WAV file."""
MIN_TILE: Final = 256
"""Minimum pixels per side of Gemini's tiles."""
MAX_TILES: Final = 16
"""Maximum number of Gemini's tiles."""
_JPEG_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def image_tokens(data: str, provider: str | None = None) -> int:
    """Tokens of a base64 image at one of `PROVIDERS`; without a provider the largest number of all providers."""
    size = image_size(_head(data))
    if size is None:
        return MAX_IMAGE_TOKENS
    if provider in _COUNTS:
        return _COUNTS[provider](*size)
    return max(count(*size) for count in _COUNTS.values())


def audio_tokens(data: str) -> int:
    """Tokens of base64 audio: from the duration of a WAV file, otherwise from the number of bytes."""
    head, size = _head(data), len(data) * 3 // 4
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE" and len(head) >= 32:
        per_second: int = struct.unpack("<I", head[28:32])[0]
        if per_second:
            return math.ceil(size / per_second * WAV_TOKENS_PER_SECOND)
    return size // AUDIO_BYTES_PER_TOKEN + 1


def image_size(head: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, from the beginning of a PNG, GIF, WebP or JPEG; None for other formats."""
    try:
        if head[:8] == b"\x89PNG\r\n\x1a\n":
            size = struct.unpack(">II", head[16:24])
        elif head[:6] in (b"GIF87a", b"GIF89a"):
            size = struct.unpack("<HH", head[6:10])
        elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            size = _webp(head)
        elif head[:2] == b"\xff\xd8":
            return _jpeg(head)
        else:
            return None
    except (struct.error, IndexError):
        return None
    width, height = size
    return (width, height) if width and height else None


def _head(data: str) -> bytes:
    part = data[:HEAD]
    try:
        return base64.b64decode(part[: len(part) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _webp(head: bytes) -> tuple[int, int]:
    if head[12:16] == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", head[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(head: bytes) -> tuple[int, int] | None:
    offset = 2
    while offset + 9 <= len(head) and head[offset] == 0xFF:
        if head[offset + 1] in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", head[offset + 5 : offset + 9])
            return (width, height) if width and height else None
        offset += 2 + int(struct.unpack(">H", head[offset + 2 : offset + 4])[0])
    return None


def _anthropic(width: int, height: int) -> int:
    scale = min(1.0, 1568 / max(width, height))
    return min(MAX_IMAGE_TOKENS, math.ceil(width * scale * height * scale / 750))


def _openai(width: int, height: int) -> int:
    scale = min(1.0, 2048 / max(width, height))
    width, height = math.ceil(width * scale), math.ceil(height * scale)
    scale = min(1.0, 768 / min(width, height))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _gemini(width: int, height: int) -> int:
    if width <= 384 and height <= 384:
        return 258
    tile_size = max(MIN_TILE, math.floor(min(width, height) / 1.5))
    return 258 * min(MAX_TILES, math.ceil(width / tile_size) * math.ceil(height / tile_size))


_COUNTS: Final[dict[str | None, Callable[[int, int], int]]] = {ANTHROPIC: _anthropic, OPENAI: _openai, GEMINI: _gemini}
