"""Names of members that parsers of JSON do not agree on: in another case, or twice in one object.

Pure module. RFC 8259, section 4, leaves open what a name means that comes twice. Go's encoding/json and cJSON match
names without regard to case, Jackson and .NET do on demand: a struct of theirs takes `Name` for `name`, and what was
decided about the one is not what they run.
"""

from __future__ import annotations

import json
import operator
import unicodedata
from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_SHOWN: Final = 60
"""Characters of a foreign name in a message."""


class Ambiguous(ValueError):
    """An object with a member that comes twice, or in two spellings that differ in case alone."""


def fold(text: str) -> str:
    """The text as readers see it that take no notice of case. It covers Unicode's simple folding, as Go's encoding/json
    has it (`ſ` is s, the Kelvin sign is k), Java's `equalsIgnoreCase` (`ı` and `İ` are i), and canonical equivalence.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).replace("İ", "i").upper().casefold()


def _name_for_others(name: str) -> str:
    return fold(name.partition("\0")[0])  # where C reads it, it ends there


class Known:
    """Names that something is decided by, and all that may be taken for one of them."""

    __slots__ = ("_by_fold", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names: frozenset[str] = frozenset(names)
        self._by_fold = {_name_for_others(name): name for name in self.names}

    def misread(self, members: Collection[str], where: str) -> str | None:
        """A sentence about the first member that is none of the names but may be taken for one; None without any.
        `where` is the object that holds them, such as `params`.
        """
        if self.names.issuperset(members):
            return None
        for member in members:
            if member not in self.names:
                meant = self._by_fold.get(_name_for_others(member))
                if meant is not None:
                    return misspelt(member, meant, where)
        return None


def misspelt(member: str, meant: str, where: str) -> str:
    """The sentence about a member that some servers would take for another one."""
    shown = json.dumps(member[:_SHOWN])
    return f'{where} has {shown}, which some parsers read as "{meant}": write "{meant}", or leave it out'


def repeats(document: bytes | Raw) -> bool:
    """Whether a member comes twice in one of the document's objects, however deep; `"a"` and `"\\u0061"` are the same.

    Raises one of jsonrpc.UNREADABLE.
    """
    return _repeats(document, _encode(_decode(document)))


def distinct(document: bytes | Raw) -> tuple[str, str]:
    """The document in its shortest form, and that without regard to case.

    Raises Ambiguous where a member comes twice or in two spellings, else one of jsonrpc.UNREADABLE.
    """
    written = _encode(_decode(document))
    if _repeats(document, written):
        raise Ambiguous("a member comes twice")
    text = written.decode()
    alike = fold(text)
    if alike != text:
        # still JSON: folding leaves escapes and punctuation alone, and so loses a member only where two are alike
        raw = alike.encode()
        if _encode(_decode(raw)) != raw:
            raise Ambiguous("a member comes in two spellings that differ in case alone")
    return text, alike


def _repeats(document: bytes | Raw, written: bytes) -> bool:
    """`written` is the document decoded and encoded again, which leaves one of equal members."""
    if written == document or written == msgspec.json.format(document, indent=-1):
        return False
    # escapes, or numbers in another form; in C all the way: a hook in Python takes 3 µs an object
    objects: list[list[tuple[str, Any]]] = []
    hook: Any = objects.append
    json.JSONDecoder(object_pairs_hook=hook, parse_int=len, parse_float=len).decode(bytes(document).decode())
    return any(map(operator.ne, map(len, objects), map(len, map(dict, objects))))
