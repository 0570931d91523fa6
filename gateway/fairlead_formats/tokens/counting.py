"""Counts tokens: exactly by OpenAI's o200k vocabulary where tiktoken is installed, else estimated from bytes.

Pure module but for reading its own data file, once and lazily: 0.3 s and 80 MB, so a server loads it in a thread. The
ranks are those of `o200k_base.tiktoken` (NOTICE beside this file), packed as 199,998 lengths followed by the tokens,
compressed; unpacked they must have the digest that tiktoken itself pins. Whichever counter is used, it has a name that
goes into every answer.
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
"""On tool definitions it overestimates by a tenth on average; a single one in Chinese may take 1.6 times as many."""

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
"""Characters that are counted at once: a longer text is cut, which costs a token per cut and bounds the worst case."""
MAX_EXACT: Final = 4_000_000
"""Characters of one text that are counted exactly; beyond, every two bytes count as a token."""


class UnusableRanks(Exception):
    """The data file is not what it was when it was packed."""


class TokenCounter(Protocol):
    """Counts tokens of text. Never raises."""

    @property
    def name(self) -> str:
        """`o200k_base` or `bytes/4`."""

    def count(self, text: str) -> int: ...


class BytesCounter:
    """Every four bytes of UTF-8 count as a token."""

    name = BYTES

    def count(self, text: str) -> int:
        return (len(text.encode("utf-8", "replace")) + 3) // 4


class O200kCounter:
    """OpenAI's o200k_base. Special tokens count as the text that they are."""

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
    """The best counter by name at once, and loaded when something is counted."""

    @property
    def name(self) -> str:
        return O200K if importlib.util.find_spec("tiktoken") else BYTES

    def count(self, text: str) -> int:
        return best_counter().count(text)


@functools.cache
def best_counter() -> TokenCounter:
    """The exact counter where tiktoken is installed, else the estimate. Made once; safe to call from any thread."""
    return load_o200k() or BytesCounter()


def load_o200k() -> O200kCounter | None:
    """The exact counter, from the ranks in this package; None without tiktoken. Raises UnusableRanks."""
    try:
        import tiktoken
    except ImportError:
        return None
    encoding = tiktoken.Encoding(O200K, pat_str=_PATTERN, mergeable_ranks=_ranks(), special_tokens={})
    return O200kCounter(encoding.encode_ordinary)


def _ranks() -> dict[bytes, int]:
    packed = importlib.resources.files("fairlead_formats.tokens").joinpath(_FILE).read_bytes()
    try:
        tokens = list(_unpack(lzma.decompress(packed)))
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
