"""Cuts the results of tools into passages, and picks those that fit a query, within a number of tokens. Pure module.

No model is asked: what is picked stands in the result word for word.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import re2

from fairlead_search.index import Bm25Index
from fairlead_search.text import terms
from fairlead_search.token_estimate import tokens, within

PASSAGE: Final = 600
"""Characters of a passage, about."""
MAX_PASSAGES: Final = 50_000
"""Passages of one search; what comes after them is not searched."""
MAX_DEPTH: Final = 64
PATTERN_BYTES: Final = 8 << 20
"""Memory of a compiled expression, and of the states of its search."""
LEAST_PART: Final = 4
"""Part of a budget that the first passage's text has however long its place is: a fourth."""
_STEP: Final = re.compile(r"[^.\[\]]+")


class Passage(msgspec.Struct, frozen=True):
    """A part of one result."""

    source: str
    where: str
    """`lines 3-9` of a text, or the path in a JSON document; `$` is the whole."""
    text: str
    score: float = 0.0
    """Comparable within one answer only."""


def passages(source: str, document: object) -> Iterator[Passage]:
    """Parts of a text, or of a decoded JSON document, in their order."""
    if isinstance(document, str):
        yield from _of_text(source, document)
    else:
        yield from _of_json(source, document, "$", 0)


def best(
    sources: Mapping[str, object], query: str, budget_tokens: int, overhead: int = 0
) -> tuple[list[Passage], bool]:
    """The passages that fit a query, the best first, as many as the budget has room for, and whether there are more;
    `overhead` tokens are reckoned for each beside its text and place. The last one may be cut at its end.
    """
    found: list[Passage] = []
    for source, document in sources.items():
        for passage in passages(source, document):
            if len(found) == MAX_PASSAGES:
                break
            found.append(passage)
    index = Bm25Index({str(number): Counter(_terms(passage)) for number, passage in enumerate(found)}, once=True)
    hits = index.search(query, min(len(found), budget_tokens)) if found else []
    ranked = [msgspec.structs.replace(found[int(hit.key)], score=round(hit.score, 3)) for hit in hits]
    return fitting(ranked, budget_tokens, overhead)


def fitting(ranked: Sequence[Passage], budget_tokens: int, overhead: int = 0) -> tuple[list[Passage], bool]:
    """The first of these that there is room for, and whether anything of them is left out."""
    left = budget_tokens
    taken: list[Passage] = []
    for passage in ranked:
        room = left - overhead - tokens(passage.where)
        if tokens(passage.text) > room:
            if not taken:
                taken.append(msgspec.structs.replace(passage, text=within(passage.text, max(room, left // LEAST_PART))))
            return taken, True
        taken.append(passage)
        left = room - tokens(passage.text)
    return taken, False


def lines(text: str, first: int, last: int) -> str:
    """Lines of a text, counted from 1, both ends included."""
    return "\n".join(text.splitlines()[max(0, first - 1) : last])


def matching(text: str, wanted: str) -> str:
    """The lines in which a regular expression is found, in any case, each behind its number; what is no expression of
    RE2, which no pattern and no text can make slow, is looked for as it stands.
    """
    options = re2.Options()
    options.case_sensitive, options.max_mem, options.log_errors = False, PATTERN_BYTES, False
    needle = wanted.encode("utf-8", "replace")  # as bytes: a text may have halves of pairs of surrogates
    try:
        pattern = re2.compile(needle, options)
    except re2.error:
        pattern = re2.compile(re2.escape(needle), options)
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.search(line.encode("utf-8", "replace")):
            found.append(f"{number}: {line}")
    return "\n".join(found)


def at_path(document: object, path: str) -> object:
    """Part of a JSON document, by a path such as `items[3].name`. Raises KeyError with the step that is not there."""
    found: Any = document
    for step in _STEP.findall(path.removeprefix("$"))[:MAX_DEPTH]:
        name = step.strip("'\"")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            raise KeyError(name)
    return found


def written(document: object) -> str:
    """A document as text: JSON with a member a line, so that it has lines to read."""
    return document if isinstance(document, str) else json.dumps(document, ensure_ascii=False, indent=1)


def _terms(passage: Passage) -> Iterator[str]:
    yield from terms(passage.text)
    yield from terms(passage.where)


def _of_text(source: str, text: str) -> Iterator[Passage]:
    start, size = 1, 0
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if held and (size + len(line) > PASSAGE or (not line.strip() and size > PASSAGE // 2)):
            yield Passage(source, _lines(start, number - 1), "\n".join(held))
            start, held, size = number, [], 0
        if len(line) > PASSAGE:
            yield from (Passage(source, _lines(number, number), part) for part in _pieces(line))
            start = number + 1
        else:
            held.append(line)
            size += len(line)
    if any(line.strip() for line in held):
        yield Passage(source, _lines(start, start + len(held) - 1), "\n".join(held))


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _pieces(line: str) -> Iterator[str]:
    """Parts of a long line, cut behind a sentence or a word where there is one."""
    place = 0
    while place < len(line):
        end = place + PASSAGE
        if end < len(line):
            behind = max(line.rfind(mark, place + PASSAGE // 2, end) for mark in (". ", "。", "; ", " ", ","))
            end = end if behind < 0 else behind + 1
        yield line[place:end]
        place = end


def _of_json(source: str, value: object, path: str, depth: int) -> Iterator[Passage]:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(text) <= PASSAGE or depth == MAX_DEPTH or not isinstance(value, dict | list):
        whole = value if isinstance(value, str) else text
        if len(whole) <= PASSAGE:
            yield Passage(source, path, whole)
        else:
            yield from (Passage(source, f"{path} {part.where}", part.text) for part in _of_text(source, whole))
        return
    small: dict[str, object] = {}
    named = value.items() if isinstance(value, dict) else ((f"[{place}]", item) for place, item in enumerate(value))
    for name, item in named:
        own = f"{path}{name}" if isinstance(value, list) else f"{path}.{name}"
        if isinstance(item, dict | list) or (isinstance(item, str) and len(item) > PASSAGE // 2):
            yield from _of_json(source, item, own, depth + 1)
            continue
        small[name] = item
        if len(small) == 8:
            yield Passage(source, path, json.dumps(small, ensure_ascii=False))
            small = {}
    if small:
        yield Passage(source, path, json.dumps(small, ensure_ascii=False))
