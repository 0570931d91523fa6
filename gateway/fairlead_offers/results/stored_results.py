"""Reads parts of stored results, by functions from bytes to bytes that a worker process can run. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead_offers.job import Job
from fairlead_offers.results.result_documents import ResultDocument, document, read_document
from fairlead_search import passages
from fairlead_search.passage_relevance import scores
from fairlead_search.passages import Lines, write_out
from fairlead_search.result_compression import cut_to
from fairlead_search.token_estimate import tokens

if TYPE_CHECKING:
    from fairlead_search.passage_vectors import PassageVectors

ANSWER_TOKENS: Final = 40
"""Tokens of an answer without its passages."""
OVERHEAD_TOKENS: Final = 60
"""Tokens of a passage's metadata except its location: entry, tool, time, arguments and score."""
END_TOKENS: Final = 4
"""Additional tokens of a location that names, besides its lines, the character at which the last line was cut."""
COMPRESSED_TOKENS: Final = 6
"""Tokens of the member `compressed`, which marks a passage that a model wrote."""


class StoredResult(msgspec.Struct, frozen=True):
    """Stored result of a tool call."""

    id: str
    result: bytes
    """Raw MCP result."""


class Reading(msgspec.Struct, frozen=True):
    """Request to read results: the passages that fit `query`, or a part of one result by path, lines or expression."""

    results: list[StoredResult]
    budget: int
    """Maximum number of tokens of the answer."""
    query: str | None = None
    path: str | None = None
    lines: Lines | None = None
    """Lines of the result, or of the part at `path`."""
    grep: str | None = None
    """Regular expression that the selected lines match."""
    encoding_s: float = 0.0
    """Maximum seconds for embedding the searched texts; 0: passages are ranked by words alone."""


class ReadPassages(msgspec.Struct, frozen=True):
    """Passages that were read. `missing`: the first step of the path that the result does not have."""

    passages: list[passages.Passage] = []
    missing: str | None = None
    lines: int = 0
    """Number of lines of the result, or of the part at the path; 0 if it has no lines."""
    cut: bool = False
    """Whether more passages were found than fit the budget."""


def read(work: bytes) -> ReadPassages:
    """Answer a `Reading` that is encoded as MessagePack."""
    reading = _decode(work)
    if reading.query is not None:
        sources = {result.id: document(result.result) for result in reading.results}
        best, cut = passages.best_passages(
            sources, reading.query, reading.budget - ANSWER_TOKENS, OVERHEAD_TOKENS, _rate(reading.encoding_s)
        )
        return ReadPassages(best, cut=cut)
    return read_part(reading)


def _rate(encoding_s: float) -> passages.Rate:
    return partial(_vectors().scores, seconds=encoding_s) if encoding_s > 0 else scores


@cache
def _vectors() -> PassageVectors:
    from fairlead_search.passage_vectors import PassageVectors  # imports numpy and the encoder, which are optional

    return PassageVectors()


def compressed_passages(uncompressed: ReadPassages, compressed: Mapping[str, str], budget: int) -> ReadPassages:
    """Replace passages by a model's compressed texts, one for each source in `compressed`, and cut these texts to a
    number of tokens.
    """
    first_by_source = {part.source: part for part in reversed(uncompressed.passages)}
    longest_location = max((tokens(part.where) for part in first_by_source.values()), default=0)
    texts, cut = cut_to(compressed, budget - ANSWER_TOKENS, OVERHEAD_TOKENS + COMPRESSED_TOKENS + longest_location)
    shown_passages = [
        msgspec.structs.replace(first_by_source[source], text=text)
        for source, text in texts.items()
        if source in first_by_source
    ]
    return ReadPassages(shown_passages, cut=cut or uncompressed.cut)


def read_part(reading: Reading) -> ReadPassages:
    """Answer a `Reading` of a part of one result."""
    stored = reading.results[0]
    stored_document = read_document(stored.result)
    value, location = stored_document.whole, "$"
    if reading.path is not None:
        location = reading.path
        try:
            value = _at_path(stored_document, reading.path)
        except KeyError as step:
            count = len(value.splitlines()) if isinstance(value, str) else 0
            return ReadPassages(missing=str(step.args[0]), lines=count)
    text = write_out(value)
    count = len(text.splitlines())
    budget, overhead = reading.budget - ANSWER_TOKENS, OVERHEAD_TOKENS
    lines = reading.lines
    if reading.grep is not None:
        location = f"{location} grep"
        text = passages.matching_lines(text, reading.grep, budget - overhead - tokens(location))
    elif lines is not None:
        location, text = f"{location} lines {lines.format_within(count)}", passages.lines(text, lines)
        overhead += END_TOKENS
    (shown_passage,), cut = passages.fitting_passages([passages.Passage(stored.id, location, text)], budget, overhead)
    if cut and lines is not None:
        shown_passage = msgspec.structs.replace(
            shown_passage, where=f"{reading.path or '$'} lines {lines.covered_by(shown_passage.text)}"
        )
    return ReadPassages([shown_passage], lines=count, cut=cut)


def _at_path(document: ResultDocument, path: str) -> object:
    """Part of a result's JSON at a path. If the result's main form does not have the path, its other form is searched.
    Raises KeyError.
    """
    try:
        return passages.at_path(document.whole, path)
    except KeyError:
        if not isinstance(document.other, dict | list):
            raise
        return passages.at_path(document.other, path)


_decode: Final = msgspec.msgpack.Decoder(Reading).decode
READ: Final = Job[ReadPassages]("read", ReadPassages)
