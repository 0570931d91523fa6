"""Mapping of tool names to names that every provider accepts, and suggestions for misspelled names.

Pure module. Each request has its own mapping: a name that the model calls is looked up in the `Names` of the request's
tools, never in a table of the process, so that a call cannot reach a tool of another request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from difflib import SequenceMatcher

SEPARATOR: Final = "__"
"""Separates a server's prefix from the tool's name. Prefixes do not contain it, so its first occurrence counts."""
SAFE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
"""Names that every provider accepts. OpenAI and Bedrock allow 64 characters of `[A-Za-z0-9_-]`. Gemini refuses a digit
at the beginning; Bedrock, with some clients, refuses an underscore at the beginning. Some providers refuse dots,
slashes and colons.
"""
MAX_LENGTH: Final = 64
SUFFIX_LENGTH: Final = 8
"""Hexadecimal digits of the hash at the end of a changed name, which tells names apart that would become equal."""
CLOSENESS: Final = 0.7
"""Minimum similarity (`difflib` ratio) of a name that is suggested."""
MAX_CANDIDATES: Final = 2000
"""Maximum number of names that are compared for a suggestion; each takes about 10 µs."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_SEPARATORS: Final = re.compile(r"[\W_]+")


class Names:
    """A one-to-one mapping between original and safe names.

    A safe name is one that every provider accepts (`SAFE`). Originals that are safe keep their names. The others get
    safe names in sorted order, so that the order of the originals does not matter; a name that had to be shortened or
    is taken ends with a hash of the original.
    """

    __slots__ = ("_originals", "_safe")

    def __init__(self, originals: Iterable[str] = ()) -> None:
        self._safe: Mapping[str, str] = MappingProxyType(_allot_names({}, originals))
        self._originals: Mapping[str, str] = MappingProxyType({short: name for name, short in self._safe.items()})

    @classmethod
    def extend(cls, first: Names, originals: Iterable[str]) -> Names:
        """A mapping with all entries of `first` and further originals."""
        names = cls()
        names._safe = MappingProxyType(_allot_names(dict(first.forward), originals))
        names._originals = MappingProxyType({short: name for name, short in names._safe.items()})
        return names

    @classmethod
    def unchanged(cls, originals: Iterable[str]) -> Names:
        """A mapping of every name to itself, for formats that accept any name."""
        names = cls()
        names._safe = MappingProxyType({name: name for name in originals})
        names._originals = names._safe
        return names

    def safe_name(self, original: str) -> str:
        """The safe name of an original. Raises KeyError for a name that is not in the mapping."""
        return self._safe[original]

    def original_name(self, safe: str) -> str | None:
        """The original name for a name that a model called; None if no tool of the request has this safe name."""
        return self._originals.get(safe)

    @property
    def forward(self) -> Mapping[str, str]:
        """Maps original to safe names."""
        return self._safe

    @property
    def originals(self) -> Mapping[str, str]:
        """Maps safe to original names."""
        return self._originals

    def __contains__(self, original: object) -> bool:
        return original in self._safe

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and dict(self._safe) == dict(other._safe)

    def __hash__(self) -> int:
        return hash(frozenset(self._safe.items()))

    def __repr__(self) -> str:
        changed = {name: short for name, short in sorted(self._safe.items()) if name != short}
        return f"<Names {len(self._safe)} tools, changed: {changed}>"


def _allot_names(safe: dict[str, str], originals: Iterable[str]) -> dict[str, str]:
    """The mapping `safe` of original to safe names, extended by the `originals` that it lacks."""
    unnamed = sorted(set(originals) - safe.keys())
    taken_names = set(safe.values())
    for name in unnamed:
        if SAFE.match(name) and name not in taken_names:
            safe[name] = name
            taken_names.add(name)
    for name in unnamed:
        if name not in safe:
            safe[name] = _free_name(name, taken_names)
            taken_names.add(safe[name])
    return safe


def _free_name(name: str, taken_names: set[str]) -> str:
    plain = _UNSAFE.sub("_", name).lstrip("_-")
    if plain and not plain[0].isalpha():
        plain = f"t_{plain}"
    if plain and len(plain) <= MAX_LENGTH and plain not in taken_names:
        return plain
    plain = plain or "tool"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    for start in range(len(digest) - SUFFIX_LENGTH):
        suffix = f"_{digest[start : start + SUFFIX_LENGTH]}"
        candidate = plain[: MAX_LENGTH - len(suffix)] + suffix
        if candidate not in taken_names:
            return candidate
    return _number_name(plain, taken_names)


def _number_name(plain: str, taken_names: set[str]) -> str:
    """A free name that ends with a number, for the case that somebody took all names that end with a hash."""
    number = 2
    while (candidate := f"{plain[: MAX_LENGTH - 12]}_{number}") in taken_names:
        number += 1
    return candidate


def suggest_name(name: str, visible: Iterable[str]) -> str | None:
    """The visible name that `name` was probably meant to be, or None.

    Names that differ only in case and separators are equal. Otherwise the most similar name wins, and the first in
    order among equals. The part after a server's prefix (`everything__echo`) is compared separately: a long common
    prefix does not make two tools similar, and a tool is found even if its prefix is wrong or missing. A `name` that is
    the beginning or end of exactly one visible name means that visible name. The client sees the result, so `visible`
    must contain only names that the client may see.
    """
    candidates = sorted(set(visible))[:MAX_CANDIDATES]
    normalized = _normalize(name[: 4 * MAX_LENGTH])
    if not normalized:
        return None
    forms = {candidate: _normalize(candidate) for candidate in candidates}
    for candidate, form in forms.items():
        if form == normalized:
            return candidate
    tails = [
        candidate for candidate, form in forms.items() if form.endswith(normalized) or normalized.endswith(form or "\0")
    ]
    heads = [candidate for candidate, form in forms.items() if form.startswith(normalized)]
    for matches in (tails, heads):
        if len(matches) == 1 and len(normalized) > 3:
            return matches[0]
    return _most_similar(name[: 4 * MAX_LENGTH], candidates)


def unknown_tool(name: str, suggestion: str | None) -> str:
    """Error message for an unknown tool, shared by MCP, REST and CLI."""
    hint = "" if suggestion is None else f". Did you mean {suggestion}?"
    return f"Unknown tool: {name[: 4 * MAX_LENGTH]}{hint}"


def _most_similar(name: str, candidates: Iterable[str]) -> str | None:
    from difflib import SequenceMatcher  # only an unknown name needs it

    prefix, own_name = _parts(name)
    best_score, nearest = (CLOSENESS, -1.0), None
    name_matcher, prefix_matcher = (SequenceMatcher(None, "", text) for text in (own_name, prefix))
    for candidate in candidates:
        candidate_prefix, tool = _parts(candidate)
        forms = (tool,) if prefix or not candidate_prefix else (tool, candidate_prefix + tool)
        similarity = max(_ratio(name_matcher, form, best_score[0]) for form in forms)
        if similarity < best_score[0]:
            continue
        score = similarity, _ratio(prefix_matcher, candidate_prefix, 0.0) if prefix else 0.0
        if score > best_score:
            best_score, nearest = score, candidate
    return nearest


def _ratio(matcher: SequenceMatcher[str], text: str, minimum: float) -> float:
    """Similarity of `text` to the matcher's text; 0.0 if an inexpensive upper bound is below `minimum`."""
    matcher.set_seq1(text)
    if matcher.real_quick_ratio() < minimum or matcher.quick_ratio() < minimum:
        return 0.0
    return matcher.ratio()


def _parts(name: str) -> tuple[str, str]:
    """Prefix and tool name, normalized for comparison. The prefix is empty if there is none or no tool name follows."""
    prefix, separator, own_name = name.partition(SEPARATOR)
    tool = _normalize(own_name)
    return (_normalize(prefix), tool) if separator and tool else ("", _normalize(name))


def _normalize(name: str) -> str:
    return _SEPARATORS.sub("", name.casefold())
