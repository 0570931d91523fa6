"""Selects passages of tool results that match a query, within a number of tokens. Pure module.

Passages are verbatim parts of the results; no model is involved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Final

import msgspec

from fairlead_search.passage_relevance import scores
from fairlead_search.token_estimate import BYTES_PER_TOKEN, cut_to_tokens, tokens
from fairlead_search.units import MAX_DEPTH, Unit, units

UNIT_CHARACTERS: Final = 100
"""Approximate characters of a unit, the smallest part of a result that is selected."""
GROWTH_CHARACTERS: Final = 6
"""Characters of text per token of a passage's overhead. A passage is extended to this size, so that its text takes
about twice as many tokens as its overhead.
"""
PASSAGE_CHARACTERS: Final = 600
"""Characters of a unit if units of the usual size would be more than MAX_UNITS."""
MAX_UNITS: Final = 50_000
"""Maximum number of units per search; the rest of the results is not searched."""
MIN_RELEVANCE: Final = 0.1
"""Fraction of the best score that a unit needs in order to be selected, so that units with only common words do not
fill the budget.
"""
RANGE_TOKENS: Final = 3
"""Tokens that a location such as `lines 3-9` takes in addition to the location of one line."""
PATTERN_BYTES: Final = 8 << 20
"""Maximum number of bytes of a compiled regular expression and its automaton."""
LEAST_PART: Final = 4
"""Divisor of the budget: even if its location is long, the text of the first passage gets at least a fourth of the
budget.
"""
MARGIN_CHARACTERS: Final = 200
"""Characters that are shown on either side of a match in a long line."""
_WILDCARD_END: Final = re.compile(rb"^\^?(?:\.\*\??)+|(?<!\\)(?:\.\*\??)+\$?$")
_STEP: Final = re.compile(r"[^.\[\]]+")
Rate = Callable[[Sequence[Unit], str], list[float]]
"""Returns the score of each unit for a query; 0 if the unit does not match."""


class Lines(msgspec.Struct, frozen=True):
    """Range of lines, with columns in the first and last line. All numbers begin at 1, and both ends are included."""

    first: int
    last: int
    first_column: int = 1
    last_column: int | None = None
    """Last column; None for the end of the line."""

    def format_within(self, count: int) -> str:
        """The range in the format of the argument `range`, limited to the lines of a text with `count` lines."""
        start = f"{self.first}:{self.first_column}" if self.first_column > 1 else str(self.first)
        end = f":{self.last_column}" if self.last_column is not None and self.last <= count else ""
        return f"{start}-{min(self.last, count)}{end}"

    def covered_by(self, text: str) -> str:
        """The part of the range that `text` covers, which is the beginning of the range. In the format of the argument
        `range`.
        """
        breaks, last = text.count("\n"), len(text.rpartition("\n")[2])
        column = last if breaks else last + self.first_column - 1
        return Lines(self.first, self.first + breaks, self.first_column, column).format_within(self.last)


class Passage(msgspec.Struct, frozen=True):
    """A part of one result."""

    source: str
    where: str
    """Location in the result: `lines 3-9` of a text, or the path in a JSON document; `$` is the whole document."""
    text: str
    score: float = 0.0
    """Score for the query. Scores of different searches cannot be compared."""


def best_passages(
    sources: Mapping[str, object], query: str, budget_tokens: int, overhead: int = 0, rate: Rate = scores
) -> tuple[list[Passage], bool]:
    """Select passages that match a query, best first, within a budget. Also returns whether more passages match. Each
    passage takes `overhead` tokens in addition to its text and location. `rate` scores units, by default by words. The
    first passage may be cut at its end.
    """
    units = _units(sources)
    unit_scores = rate(units, query)
    min_score = max(unit_scores, default=0.0) * MIN_RELEVANCE
    ranked_indexes = sorted(
        (index for index, score in enumerate(unit_scores) if score > 0 and score >= min_score),
        key=lambda index: (-unit_scores[index], index),
    )
    if ranked_indexes and _cost(units, ranked_indexes[0], (), overhead) > budget_tokens:
        return fitting_passages(
            [_passage([units[ranked_indexes[0]]], unit_scores[ranked_indexes[0]])], budget_tokens, overhead
        )
    selected: set[int] = set()
    remaining = budget_tokens
    for index in ranked_indexes:
        if index in selected:
            continue
        for part in _grow(units, index, GROWTH_CHARACTERS * overhead):
            cost = _cost(units, part, selected, overhead)
            if part not in selected and cost <= remaining:
                selected.add(part)
                remaining -= cost
        if remaining <= overhead:
            break
    passages = [
        _passage([units[index] for index in run], max(unit_scores[index] for index in run))
        for run in _runs(units, selected)
    ]
    return sorted(passages, key=lambda passage: -passage.score), not selected.issuperset(ranked_indexes)


def fitting_passages(passages: Sequence[Passage], budget_tokens: int, overhead: int = 0) -> tuple[list[Passage], bool]:
    """The first passages that fit into a budget of tokens, and whether anything is left out."""
    remaining = budget_tokens
    selected: list[Passage] = []
    for passage in passages:
        tokens_left = remaining - overhead - tokens(passage.where)
        if tokens(passage.text) > tokens_left:
            if not selected:
                cut = cut_to_tokens(passage.text, max(tokens_left, remaining // LEAST_PART))
                selected.append(msgspec.structs.replace(passage, text=cut))
            return selected, True
        selected.append(passage)
        remaining = tokens_left - tokens(passage.text)
    return selected, False


def lines(text: str, line_range: Lines) -> str:
    """The requested lines of a text."""
    selected_lines = text.splitlines()[max(0, line_range.first - 1) : line_range.last]
    if (
        selected_lines
        and line_range.last_column is not None
        and len(selected_lines) > line_range.last - max(1, line_range.first)
    ):
        selected_lines[-1] = selected_lines[-1][: line_range.last_column]
    if selected_lines:
        selected_lines[0] = selected_lines[0][max(0, line_range.first_column - 1) :]
    return "\n".join(selected_lines)


def matching_lines(text: str, needle: str, budget_tokens: int) -> str:
    """Lines that match a regular expression (RE2), ignoring case, each after its number. A `needle` that is not a valid
    expression is searched literally. RE2 takes linear time for every expression and text.

    If a line takes more than half of the budget, only excerpts around its matches are returned, each after the number
    of the line and the column of the excerpt. Matches beyond the budget may be left out.
    """
    pattern = _expression(needle)
    max_length = max(1, budget_tokens) * BYTES_PER_TOKEN
    margin = min(MARGIN_CHARACTERS, max_length // 4)
    parts: list[str] = []
    length = 0
    for number, line in enumerate(text.splitlines(), 1):
        raw_line = line.encode("utf-8", "replace")
        if len(raw_line) > max_length // 2:
            matches = _surroundings(number, line, raw_line, pattern, margin)
        else:
            matches = iter((f"{number}: {line}",) if pattern.search(raw_line) else ())
        for part in matches:
            parts.append(part)
            length += len(part)
            if length > max_length:
                return "\n".join(parts)
    return "\n".join(parts)


def _expression(text: str) -> Any:
    """Compile an RE2 expression. A `.*` at either end is removed: it does not change which lines match, but would make
    each match as long as its line.
    """
    import re2  # takes 5 MB with its C++ library, so it is imported only when needed

    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = PATTERN_BYTES
    options.log_errors = False
    needle = text.encode("utf-8", "replace")  # bytes, because a text may contain lone surrogates
    try:
        pattern = re2.compile(needle, options)
    except re2.error:
        return re2.compile(re2.escape(needle), options)
    trimmed = _WILDCARD_END.sub(b"", needle)
    if trimmed and trimmed != needle:
        with suppress(re2.error):
            return re2.compile(trimmed, options)
    return pattern


def _surroundings(number: int, line: str, raw_line: bytes, pattern: Any, margin: int) -> Iterator[str]:
    """Excerpts of a long line: each match with `margin` characters on either side. Overlapping excerpts are merged, up
    to a length of four times `margin`.
    """
    start = end = byte_offset = character_offset = 0
    for match in pattern.finditer(raw_line):
        character_offset += len(raw_line[byte_offset : match.start()].decode("utf-8", "ignore"))
        byte_offset = match.start()
        match_end = character_offset + min(margin, len(raw_line[byte_offset : match.end()].decode("utf-8", "ignore")))
        if match_end + margin - start <= margin * 4 and character_offset - margin <= end:
            end = max(end, match_end + margin)
            continue
        if match_end <= end:  # the current excerpt already includes this match
            continue
        if end:
            yield _excerpt(number, line, start, end)
        start, end = max(end, character_offset - margin), match_end + margin
    if end:
        yield _excerpt(number, line, start, end)


def _excerpt(number: int, line: str, start: int, end: int) -> str:
    return f"{number}:{start + 1}: {'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def at_path(document: object, path: str) -> object:
    """Part of a JSON document by a path such as `items[3].name`. Raises KeyError with the first missing step."""
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
    """Format a document as text: JSON with one member per line, so that lines can be selected."""
    if isinstance(document, str):
        return document
    # `json.dumps` takes 30 times as long, because its encoder with indentation is not written in C
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode()


def _units(sources: Mapping[str, object]) -> list[Unit]:
    """Units of all sources. If there would be more than MAX_UNITS, the units are larger and have several lines each."""
    all_units: list[Unit] = []
    for min_characters in (0, UNIT_CHARACTERS * 2, PASSAGE_CHARACTERS):
        source_units = chain.from_iterable(
            units(source, document, max(UNIT_CHARACTERS, min_characters), min_characters)
            for source, document in sources.items()
        )
        all_units = [*islice(source_units, MAX_UNITS + 1)]
        if len(all_units) <= MAX_UNITS:
            break
    return all_units[:MAX_UNITS]


def _grow(units: Sequence[Unit], index: int, size: int) -> list[int]:
    """Indexes of a unit and of neighbouring units, nearest first, up to `size` characters in total. Longer passages are
    better, because each passage has an overhead.
    """
    run = [index]
    length = len(units[index].text)
    while length < size:
        neighbours = [
            (len(units[other].text), other)
            for other, end in ((run[-1] + 1, run[-1]), (run[0] - 1, run[0]))
            if 0 <= other < len(units) and _is_beside(units[min(other, end)], units[max(other, end)])
        ]
        if not neighbours:
            break
        length += neighbours[0][0]
        if length > size * 2:
            break
        run = sorted([*run, neighbours[0][1]])
    return sorted(run, key=lambda other: abs(other - index))


def _is_beside(first: Unit, second: Unit) -> bool:
    """Whether two consecutive units can be shown in one passage."""
    return first.source == second.source and first.path == second.path and bool(first.line) == bool(second.line)


def _cost(units: Sequence[Unit], index: int, selected: Collection[int], overhead: int) -> int:
    """Tokens that a further unit takes: the tokens of its text, and the tokens of overhead and location if the unit
    begins a new passage.
    """
    unit = units[index]
    for other in (index - 1, index + 1):
        if other in selected and _is_beside(units[min(other, index)], units[max(other, index)]):
            return tokens(unit.text) + 1
    return tokens(unit.text) + overhead + tokens(unit.where) + RANGE_TOKENS


def _runs(units: Sequence[Unit], selected: Collection[int]) -> Iterator[list[int]]:
    """Group selected units into runs, each of which is shown as one passage."""
    run: list[int] = []
    for index in sorted(selected):
        if run and (run[-1] != index - 1 or not _is_beside(units[index - 1], units[index])):
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def _passage(run: Sequence[Unit], score: float) -> Passage:
    """Create a passage from consecutive units, with the blank lines between them."""
    first, text, end = run[0], "", 0
    for unit in run:
        breaks = unit.line - end if unit.line else 1
        text += ("\n" * breaks if text else "") + unit.text
        end = unit.line + unit.text.count("\n")
    line_range = f"line {first.line}" if first.line == end else f"lines {first.line}-{end}"
    location = " ".join(part for part in (first.path, line_range if first.line else "") if part)
    return Passage(first.source, location, text, round(score, 3))
