"""Reads kept results for a question, as a function of bytes, so that another process can do it. Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fairlead_search import passages
from fairlead_search.compression import cut_to
from fairlead_search.passages import written
from fairlead_search.relevance import scores
from fairlead_search.token_estimate import tokens

if TYPE_CHECKING:
    from fairlead_search.passage_vectors import PassageVectors

ANSWER_TOKENS: Final = 40
"""Tokens of an answer beside its passages."""
OVERHEAD_TOKENS: Final = 60
"""Tokens of what a passage is shown with beside its place: its entry, tool, time, arguments and score."""

COMPRESSED_TOKENS: Final = 6
"""Tokens that say of a passage that a model wrote it."""


class KeptResult(msgspec.Struct, frozen=True):
    """One result to be read."""

    id: str
    result: bytes
    """Raw MCP result."""


class Reading(msgspec.Struct, frozen=True):
    """A question to results: those passages that fit `query`; or of one result a path, lines, or lines with a text."""

    results: list[KeptResult]
    budget: int
    """Tokens."""
    query: str | None = None
    path: str | None = None
    first: int | None = None
    """Lines, from 1."""
    last: int | None = None
    grep: str | None = None
    encoding_s: float = 0.0
    """Seconds that may go into vectors of what a query looks through; 0: words alone rank."""


class ReadPassages(msgspec.Struct, frozen=True):
    """Answer to a question. `missing`: the step of a path that is not there."""

    passages: list[passages.Passage] = []
    missing: str | None = None
    lines: int = 0
    """Number of lines in the one result."""
    cut: bool = False
    """Whether there is more that was asked for, or fits the query, than the budget holds."""


def read(work: bytes) -> ReadPassages:
    """Answer a `Reading`, which comes as MessagePack."""
    asked = _decode(work)
    if asked.query is not None:
        sources = {one.id: document(one.result) for one in asked.results}
        found, more = passages.best(
            sources, asked.query, asked.budget - ANSWER_TOKENS, OVERHEAD_TOKENS, _rate(asked.encoding_s)
        )
        return ReadPassages(found, cut=more)
    return _one(asked, asked.results[0])


def _rate(encoding_s: float) -> passages.Rate:
    return partial(_vectors().scores, seconds=encoding_s) if encoding_s > 0 else scores


@cache
def _vectors() -> PassageVectors:
    from fairlead_search.passage_vectors import PassageVectors  # with numpy and the encoder, which are an extra

    return PassageVectors()


def compressed(wide: ReadPassages, made: Mapping[str, str], budget: int) -> ReadPassages:
    """Texts that a model made of passages, one for each result that it said something of, within a number of tokens."""
    first = {part.source: part for part in reversed(wide.passages)}
    longest = max((tokens(part.where) for part in first.values()), default=0)
    texts, cut = cut_to(made, budget - ANSWER_TOKENS, OVERHEAD_TOKENS + COMPRESSED_TOKENS + longest)
    shown = [msgspec.structs.replace(first[source], text=text) for source, text in texts.items() if source in first]
    return ReadPassages(shown, cut=cut or wide.cut)


def document(result: bytes) -> object:
    """Text or JSON in a raw result: its `structuredContent`, or its texts, as JSON where they are. Other content is
    named by type and size.
    """
    try:
        members = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return result.decode("utf-8", "replace")
    if not isinstance(members, dict):
        return str(members)
    if isinstance(members.get("structuredContent"), dict | list):
        found = members["structuredContent"]
        return result.decode("utf-8", "replace") if _is_deep(found) else found
    content = members.get("content")
    said = "\n".join(_block(block) for block in content if isinstance(block, dict)) if isinstance(content, list) else ""
    if said[:1] in ("{", "["):
        try:
            found = msgspec.json.decode(said)
        except (msgspec.DecodeError, RecursionError):
            return said
        return said if _is_deep(found) else found
    return said


def contents(result: bytes, uri: str) -> bytes:
    """A raw result as the contents of a resource: its document as text, and what else it holds as it is."""
    whole = document(result)
    mime = "text/plain" if isinstance(whole, str) else "application/json"
    parts: list[dict[str, Any]] = [{"uri": uri, "mimeType": mime, "text": written(whole)}]
    for block in _blocks(result):
        if isinstance(block.get("data"), str):
            parts.append({"uri": uri, "mimeType": str(block.get("mimeType", "")), "blob": block["data"]})
    return msgspec.json.encode({"contents": parts})


def _blocks(result: bytes) -> list[dict[str, Any]]:
    try:
        members = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    content = members.get("content") if isinstance(members, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _block(block: dict[str, Any]) -> str:
    if isinstance(block.get("text"), str):
        return str(block["text"])
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    if block.get("type") == "resource_link":
        return f"[resource {block.get('uri')}]"
    size = len(block["data"]) * 3 // 4 if isinstance(block.get("data"), str) else 0
    return f"[{block.get('type')} {block.get('mimeType', '')}, {size:,} bytes]"


def _is_deep(document: object) -> bool:
    """Whether it is nested deeper than `DEEPEST`: writing it again would go beyond the interpreter's stack."""
    level = [document]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _one(asked: Reading, held: KeptResult) -> ReadPassages:
    whole, where = document(held.result), "$"
    if asked.path is not None:
        where = asked.path
        try:
            whole = passages.at_path(whole, asked.path)
        except KeyError as step:
            return ReadPassages(missing=str(step.args[0]))
    text = written(whole)
    count = len(text.splitlines())
    if asked.first is not None and asked.last is not None:
        where, text = (
            f"{where} lines {asked.first}-{min(asked.last, count)}",
            passages.lines(text, asked.first, asked.last),
        )
    elif asked.grep is not None:
        where, text = f"{where} grep", passages.matching(text, asked.grep)
    (shown,), cut = passages.fitting(
        [passages.Passage(held.id, where, text)], asked.budget - ANSWER_TOKENS, OVERHEAD_TOKENS
    )
    return ReadPassages([shown], lines=count, cut=cut)


DEEPEST: Final = 200
"""Objects and lists in one another in a document that is read as JSON; a deeper one is read as text."""
_decode: Final = msgspec.msgpack.Decoder(Reading).decode
