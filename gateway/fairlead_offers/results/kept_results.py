"""Reads kept results for a question, as a function of bytes, so that another process can do it. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead_offers.job import Job
from fairlead_offers.results.result_documents import ResultDocument, document, read_document
from fairlead_search import passages
from fairlead_search.compression import cut_to
from fairlead_search.passages import Lines, write_out
from fairlead_search.relevance import scores
from fairlead_search.token_estimate import tokens

if TYPE_CHECKING:
    from fairlead_search.passage_vectors import PassageVectors

ANSWER_TOKENS: Final = 40
"""Tokens of an answer beside its passages."""
OVERHEAD_TOKENS: Final = 60
"""Tokens of what a passage is shown with beside its place: its entry, tool, time, arguments and score."""
END_TOKENS: Final = 4
"""Tokens by which the place of lines grows where it says at which character they were cut."""
COMPRESSED_TOKENS: Final = 6
"""Tokens that say of a passage that a model wrote it."""


class KeptResult(msgspec.Struct, frozen=True):
    """One result to be read."""

    id: str
    result: bytes
    """Raw MCP result."""


class Reading(msgspec.Struct, frozen=True):
    """A question to results: the passages that fit `query`; or of one result a part by path, lines or an expression."""

    results: list[KeptResult]
    budget: int
    """Tokens."""
    query: str | None = None
    path: str | None = None
    lines: Lines | None = None
    """Lines of the result, or of the part at `path`."""
    grep: str | None = None
    """Expression that such lines match."""
    encoding_s: float = 0.0
    """Seconds that may go into vectors of what a query looks through; 0: words alone rank."""


class ReadPassages(msgspec.Struct, frozen=True):
    """Answer to a question. `missing`: the step of a path that is not there."""

    passages: list[passages.Passage] = []
    missing: str | None = None
    lines: int = 0
    """Number of lines in the one result, or in the part at its path; 0 where it has no lines."""
    cut: bool = False
    """Whether there is more that was asked for, or fits the query, than the budget holds."""


def read(work: bytes) -> ReadPassages:
    """Answer a `Reading`, which comes as MessagePack."""
    reading = _decode(work)
    if reading.query is not None:
        sources = {result.id: document(result.result) for result in reading.results}
        best, more = passages.best(
            sources, reading.query, reading.budget - ANSWER_TOKENS, OVERHEAD_TOKENS, _rate(reading.encoding_s)
        )
        return ReadPassages(best, cut=more)
    return _read_part(reading, reading.results[0])


def _rate(encoding_s: float) -> passages.Rate:
    return partial(_vectors().scores, seconds=encoding_s) if encoding_s > 0 else scores


@cache
def _vectors() -> PassageVectors:
    from fairlead_search.passage_vectors import PassageVectors  # with numpy and the encoder, which are an extra

    return PassageVectors()


def compressed_passages(wide: ReadPassages, made: Mapping[str, str], budget: int) -> ReadPassages:
    """Texts that a model made of passages, one for each result that it said something of, within a number of tokens."""
    first = {part.source: part for part in reversed(wide.passages)}
    longest = max((tokens(part.where) for part in first.values()), default=0)
    texts, cut = cut_to(made, budget - ANSWER_TOKENS, OVERHEAD_TOKENS + COMPRESSED_TOKENS + longest)
    shown = [msgspec.structs.replace(first[source], text=text) for source, text in texts.items() if source in first]
    return ReadPassages(shown, cut=cut or wide.cut)


def _read_part(reading: Reading, held: KeptResult) -> ReadPassages:
    held_document = read_document(held.result)
    whole, where = held_document.whole, "$"
    if reading.path is not None:
        where = reading.path
        try:
            whole = _at_path(held_document, reading.path)
        except KeyError as step:
            count = len(whole.splitlines()) if isinstance(whole, str) else 0
            return ReadPassages(missing=str(step.args[0]), lines=count)
    text = write_out(whole)
    count = len(text.splitlines())
    budget, overhead = reading.budget - ANSWER_TOKENS, OVERHEAD_TOKENS
    lines = reading.lines
    if reading.grep is not None:
        where = f"{where} grep"
        text = passages.matching(text, reading.grep, budget - overhead - tokens(where))
    elif lines is not None:
        where, text = f"{where} lines {lines.name_count(count)}", passages.lines(text, lines)
        overhead += END_TOKENS
    (shown,), cut = passages.fitting([passages.Passage(held.id, where, text)], budget, overhead)
    if cut and lines is not None:
        shown = msgspec.structs.replace(shown, where=f"{reading.path or '$'} lines {lines.until(shown.text)}")
    return ReadPassages([shown], lines=count, cut=cut)


def _at_path(document: ResultDocument, path: str) -> object:
    """Part of a result's JSON, in whichever of its two forms has it. Raises KeyError."""
    try:
        return passages.at_path(document.whole, path)
    except KeyError:
        if not isinstance(document.other, dict | list):
            raise
        return passages.at_path(document.other, path)


_decode: Final = msgspec.msgpack.Decoder(Reading).decode
READ: Final = Job[ReadPassages]("read", ReadPassages)
