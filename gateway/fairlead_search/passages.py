"""Cuts the results of tools into passages, and picks those that fit a query, within a number of tokens. Pure module.

No model is asked: what is picked stands in the result word for word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Final

import msgspec

from fairlead_search.relevance import scores
from fairlead_search.token_estimate import BYTES_PER_TOKEN, tokens, within
from fairlead_search.units import MAX_DEPTH, Unit, units

UNIT: Final = 100
"""Characters of the least part that is picked by itself, about."""
WIDENED: Final = 6
"""Characters that a passage has where there are as many, for each token beside it: twice as much text as that."""
PASSAGE: Final = 600
"""Characters of a part where there are too many."""
MAX_UNITS: Final = 50_000
"""Parts of one search; what comes after them is not searched."""
RELEVANT: Final = 0.1
"""Part of the best score that a part needs to be picked: words that stand everywhere fill no budget."""
RANGE_TOKENS: Final = 3
"""Tokens by which the place of several lines is longer than that of one."""
PATTERN_BYTES: Final = 8 << 20
"""Memory of a compiled expression, and of the states of its search."""
LEAST_PART: Final = 4
"""Part of a budget that the first passage's text has however long its place is: a fourth."""
AROUND: Final = 200
"""Characters on either side of a match in a long line."""
_WILD: Final = re.compile(rb"^\^?(?:\.\*\??)+|(?<!\\)(?:\.\*\??)+\$?$")
_STEP: Final = re.compile(r"[^.\[\]]+")
Rate = Callable[[Sequence[Unit], str], list[float]]
"""From units and a query to the score of each, 0 where it does not fit."""


class Lines(msgspec.Struct, frozen=True):
    """Lines of a text, and characters of its first and last one, all from 1 and with both ends included."""

    first: int
    last: int
    first_column: int = 1
    last_column: int | None = None
    """None: up to the end of the line."""

    def name_count(self, count: int) -> str:
        """The lines of a text that has `count`, as `range` takes them."""
        start = f"{self.first}:{self.first_column}" if self.first_column > 1 else str(self.first)
        end = f":{self.last_column}" if self.last_column is not None and self.last <= count else ""
        return f"{start}-{min(self.last, count)}{end}"

    def until(self, text: str) -> str:
        """The lines of which only the beginning `text` is shown."""
        breaks, last = text.count("\n"), len(text.rpartition("\n")[2])
        column = last if breaks else last + self.first_column - 1
        return Lines(self.first, self.first + breaks, self.first_column, column).name_count(self.last)


class Passage(msgspec.Struct, frozen=True):
    """A part of one result."""

    source: str
    where: str
    """`lines 3-9` of a text, or the path in a JSON document; `$` is the whole."""
    text: str
    score: float = 0.0
    """Comparable within one answer only."""


def best(
    sources: Mapping[str, object], query: str, budget_tokens: int, overhead: int = 0, rate: Rate = scores
) -> tuple[list[Passage], bool]:
    """The passages that fit a query, the best first, as many as the budget has room for, and whether there are more;
    `overhead` tokens are reckoned for each beside its text and place, and `rate` scores units: by words, unless it is
    given. The first passage may be cut at its end.
    """
    units = _units(sources)
    rated = rate(units, query)
    least = max(rated, default=0.0) * RELEVANT
    ranked = sorted(
        (index for index, score in enumerate(rated) if score > 0 and score >= least),
        key=lambda index: (-rated[index], index),
    )
    if ranked and _cost(units, ranked[0], (), overhead) > budget_tokens:
        return fitting([_passage([units[ranked[0]]], rated[ranked[0]])], budget_tokens, overhead)
    chosen: set[int] = set()
    left = budget_tokens
    for index in ranked:
        if index in chosen:
            continue
        for part in _grow(units, index, WIDENED * overhead):
            cost = _cost(units, part, chosen, overhead)
            if part not in chosen and cost <= left:
                chosen.add(part)
                left -= cost
        if left <= overhead:
            break
    taken = [
        _passage([units[index] for index in run], max(rated[index] for index in run)) for run in _runs(units, chosen)
    ]
    return sorted(taken, key=lambda passage: -passage.score), not chosen.issuperset(ranked)


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


def lines(text: str, wanted: Lines) -> str:
    """Lines of a text, both ends included."""
    picked = text.splitlines()[max(0, wanted.first - 1) : wanted.last]
    if picked and wanted.last_column is not None and len(picked) > wanted.last - max(1, wanted.first):
        picked[-1] = picked[-1][: wanted.last_column]
    if picked:
        picked[0] = picked[0][max(0, wanted.first_column - 1) :]
    return "\n".join(picked)


def matching(text: str, wanted: str, budget_tokens: int) -> str:
    """The lines in which a regular expression of RE2 is found, in any case, each behind its number; any other text is
    looked for literally. No pattern and no text makes RE2 slow. Of a line that takes more than half of
    the budget come the surroundings of each match, behind the numbers of the line and of their first character. What
    is more than the budget may be left out.
    """
    pattern = _expression(wanted)
    longest = max(1, budget_tokens) * BYTES_PER_TOKEN
    around = min(AROUND, longest // 4)
    parts: list[str] = []
    length = 0
    for number, line in enumerate(text.splitlines(), 1):
        raw = line.encode("utf-8", "replace")
        if len(raw) > longest // 2:
            matches = _surroundings(number, line, raw, pattern, around)
        else:
            matches = iter((f"{number}: {line}",) if pattern.search(raw) else ())
        for part in matches:
            parts.append(part)
            length += len(part)
            if length > longest:
                return "\n".join(parts)
    return "\n".join(parts)


def _expression(wanted: str) -> Any:
    """A compiled expression of RE2. A `.*` at either end matches no other lines, and would hide where in them."""
    import re2  # with its C++ library 5 MB, which few gateways ever need

    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = PATTERN_BYTES
    options.log_errors = False
    needle = wanted.encode("utf-8", "replace")  # as bytes: a text may have halves of pairs of surrogates
    try:
        pattern = re2.compile(needle, options)
    except re2.error:
        return re2.compile(re2.escape(needle), options)
    bare = _WILD.sub(b"", needle)
    if bare and bare != needle:
        with suppress(re2.error):
            return re2.compile(bare, options)
    return pattern


def _surroundings(number: int, line: str, raw: bytes, pattern: Any, around: int) -> Iterator[str]:
    """Each match in a long line with so many characters on either side; those that overlap come as one excerpt, of up
    to four times as many.
    """
    start = end = at = character = 0
    for match in pattern.finditer(raw):
        character += len(raw[at : match.start()].decode("utf-8", "ignore"))
        at = match.start()
        matched = character + min(around, len(raw[at : match.end()].decode("utf-8", "ignore")))
        if matched + around - start <= around * 4 and character - around <= end:
            end = max(end, matched + around)
            continue
        if matched <= end:  # in the excerpt already, which is full
            continue
        if end:
            yield _excerpt(number, line, start, end)
        start, end = max(end, character - around), matched + around
    if end:
        yield _excerpt(number, line, start, end)


def _excerpt(number: int, line: str, start: int, end: int) -> str:
    return f"{number}:{start + 1}: {'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def at_path(document: object, path: str) -> object:
    """Part of a JSON document, by a path such as `items[3].name`. Raises KeyError with the step that is not there."""
    value: Any = document
    for step in _STEP.findall(path.removeprefix("$"))[:MAX_DEPTH]:
        name = step.strip("'\"")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            raise KeyError(name)
    return value


def write_out(document: object) -> str:
    """A document as text: JSON with a member a line, so that it has lines to read."""
    return document if isinstance(document, str) else json.dumps(document, ensure_ascii=False, indent=1)


def _units(sources: Mapping[str, object]) -> list[Unit]:
    """Units of all sources; of many long ones lines are taken together."""
    read: list[Unit] = []
    for least in (0, UNIT * 2, PASSAGE):
        every = chain.from_iterable(
            units(source, document, max(UNIT, least), least) for source, document in sources.items()
        )
        read = [*islice(every, MAX_UNITS + 1)]
        if len(read) <= MAX_UNITS:
            break
    return read[:MAX_UNITS]


def _grow(units: Sequence[Unit], index: int, size: int) -> list[int]:
    """A unit, and those beside it that are shown with it, up to a number of characters, as a place costs much."""
    run = [index]
    length = len(units[index].text)
    while length < size:
        beside = [
            (len(units[other].text), other)
            for other, end in ((run[-1] + 1, run[-1]), (run[0] - 1, run[0]))
            if 0 <= other < len(units) and _is_beside(units[min(other, end)], units[max(other, end)])
        ]
        if not beside:
            break
        length += beside[0][0]
        if length > size * 2:
            break
        run = sorted([*run, beside[0][1]])
    return sorted(run, key=lambda other: abs(other - index))


def _is_beside(first: Unit, second: Unit) -> bool:
    """Whether the second unit is shown in the passage of the first, which it follows."""
    return first.source == second.source and first.path == second.path and bool(first.line) == bool(second.line)


def _cost(units: Sequence[Unit], index: int, chosen: Collection[int], overhead: int) -> int:
    """Tokens that a unit adds: its text, and its place where it begins a passage."""
    unit = units[index]
    for other in (index - 1, index + 1):
        if other in chosen and _is_beside(units[min(other, index)], units[max(other, index)]):
            return tokens(unit.text) + 1
    return tokens(unit.text) + overhead + tokens(unit.where) + RANGE_TOKENS


def _runs(units: Sequence[Unit], chosen: Collection[int]) -> Iterator[list[int]]:
    """Chosen units that stand in one passage each."""
    run: list[int] = []
    for index in sorted(chosen):
        if run and (run[-1] != index - 1 or not _is_beside(units[index - 1], units[index])):
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def _passage(run: Sequence[Unit], score: float) -> Passage:
    """One passage of units that follow each other, with the blank lines between them."""
    first, text, end = run[0], "", 0
    for unit in run:
        breaks = unit.line - end if unit.line else 1
        text += ("\n" * breaks if text else "") + unit.text
        end = unit.line + unit.text.count("\n")
    lines_ = f"line {first.line}" if first.line == end else f"lines {first.line}-{end}"
    where = " ".join(part for part in (first.path, lines_ if first.line else "") if part)
    return Passage(first.source, where, text, round(score, 3))
