"""Token counters: exact with OpenAI's o200k vocabulary if tiktoken is installed, otherwise estimated from bytes.

Pure module except that the first count reads a data file, which takes 0.3 s and 80 MB, so servers load it in a thread.
The file has the vocabulary (ranks) of `o200k_base.tiktoken` (see NOTICE in this folder), packed as 199,998 lengths
followed by the tokens, and compressed. Unpacked it must match the digest that tiktoken pins. Every answer with token
counts names the counter.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import importlib.util
import lzma
from collections.abc import Callable, Iterator
from typing import Final, Protocol

O200K: Final = "o200k_base"
BYTES: Final = "bytes/4"
"""Name of the counter that estimates. It overestimates tool definitions by a tenth on average, but a definition in
Chinese may have 1.6 times as many tokens as estimated.
"""

TOKENS: Final = 199_998
SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_FILE: Final = "o200k_base.xz"
_PATTERN: Final = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
PIECE: Final = 20_000
"""Maximum number of characters that are encoded at once. Longer text is cut, which adds a token per cut and limits the
worst case.
"""
MAX_EXACT: Final = 4_000_000
"""Maximum number of characters of a text that is counted exactly. A longer text counts as one token per two bytes."""


class UnusableRanks(Exception):
    """The data file is damaged."""


class TokenCounter(Protocol):
    """Counts tokens of text. Never raises."""

    @property
    def name(self) -> str:
        """Name of the method: `o200k_base` or `bytes/4`."""

    def count(self, text: str) -> int: ...


class BytesCounter:
    """Estimates one token per four bytes of UTF-8."""

    name = BYTES

    def count(self, text: str) -> int:
        return (len(text.encode("utf-8", "replace")) + 3) // 4


class O200kCounter:
    """Counts with OpenAI's o200k_base. Special tokens count as plain text."""

    name = O200K

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode

    def count(self, text: str) -> int:
        if len(text) > MAX_EXACT:
            return (len(text.encode("utf-8", "replace")) + 1) // 2
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()
        if len(text) <= PIECE:
            return len(self._encode(text))
        return sum(len(self._encode(text[start : start + PIECE])) for start in range(0, len(text), PIECE))


class LazyCounter:
    """The best available counter, which is loaded at the first count. Reading `name` does not load it."""

    @property
    def name(self) -> str:
        return O200K if importlib.util.find_spec("tiktoken") else BYTES

    def count(self, text: str) -> int:
        return best_counter().count(text)


@functools.cache
def best_counter() -> TokenCounter:
    """The exact counter if tiktoken is installed, else the estimate. Cached and thread-safe."""
    return load_o200k() or BytesCounter()


def load_o200k() -> O200kCounter | None:
    """The exact counter with the vocabulary of this package; None if tiktoken is missing. Raises UnusableRanks."""
    try:
        import tiktoken
    except ImportError:
        return None
    encoding = tiktoken.Encoding(O200K, pat_str=_PATTERN, mergeable_ranks=_ranks(), special_tokens={})
    return O200kCounter(encoding.encode_ordinary)


def _ranks() -> dict[bytes, int]:
    file_bytes = importlib.resources.files("fairlead_formats.tokens").joinpath(_FILE).read_bytes()
    try:
        tokens = list(_unpack(lzma.decompress(file_bytes)))
    except (lzma.LZMAError, IndexError, EOFError) as error:
        raise UnusableRanks(f"{_FILE} cannot be unpacked: {error}") from error
    digest = hashlib.sha256()
    for rank, token in enumerate(tokens):
        digest.update(b"%b %d\n" % (base64.b64encode(token), rank))
    if digest.hexdigest() != SHA256:
        raise UnusableRanks(f"{_FILE} does not hold the ranks of {O200K}")
    return {token: rank for rank, token in enumerate(tokens)}


def _unpack(data: bytes) -> Iterator[bytes]:
    start = TOKENS
    for length in data[:TOKENS]:
        yield data[start : start + length]
        start += length
