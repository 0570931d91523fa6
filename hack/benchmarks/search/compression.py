"""Compressing results of tools: which facts are left of them, at ten times fewer tokens.

`results.jsonl.xz` has 58 real results of 5 to 94 kB, each with what printed it, at commit e444b6a0 of this repository;
`tuning.jsonl` and `held.jsonl` have questions to them, each with the words of its result that have to be left. These
were written before any compressor was measured, and halved by a hash of their result's name. `fresh.jsonl` has further
ones to the results of the held half, at places that were drawn by chance, written before vectors were tuned. Whether
question and answer share a word is found here: a content word of the question in the line, or in the scalar members of
the JSON object, that holds the answer.
"""

from __future__ import annotations

import json
import lzma
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from math import log1p
from pathlib import Path
from typing import Any, Final

from fairlead_offers.results.result_documents import document
from fairlead_offers.results.session_context import ENCODING_S
from fairlead_offers.results.stored_results import OVERHEAD_TOKENS
from fairlead_search.embedding import missing_modules
from fairlead_search.passage_relevance import scores
from fairlead_search.passages import Rate, best_passages, write_out
from fairlead_search.term_scores import K1, B
from fairlead_search.text import QUESTION_WORDS, REQUEST_WORDS, terms
from fairlead_search.token_estimate import cut_to_tokens, tokens
from rig.harness import Cell, Goal, Report

HALVES: Final = {"compression": "tuning", "compression-held": "held", "compression-fresh": "fresh"}
"""Set of questions by part of the benchmark: one for tuning, and two that were each used only once."""
FOLDER: Final = Path(__file__).parent / "compression"
RATIO: Final = 10
"""Factor by which results are compressed, in tokens."""
CHUNK: Final = 500
"""Characters of the chunks that plain BM25 selects; each overlaps the previous one by `OVERLAP`."""
OVERLAP: Final = 50
TIMES: Final = ("query ms, p50", "query ms, p99")
GOALS: Final = (("shared", 0.95), ("paraphrased", 0.85))
MARGIN: Final = 0.05
"""Share of the facts by which Fairlead's compressor has to exceed the better of the two others."""
Compressor = Callable[[object, str, int], str]
"""From a document, a question and a maximum number of tokens to the compressed text."""


@dataclass(frozen=True)
class Fact:
    """A question about a result, and the text that the compressed result has to contain."""

    result: str
    question: str
    answer: str
    shared: bool
    """Whether the question contains a content word of the passage with the answer."""


def picked(overhead: int, rate: Rate, whole: object, question: str, budget_tokens: int) -> str:
    """Passages that `retrieve_context` selects, with their locations. Locations and `overhead` tokens per passage
    count.
    """
    passages, _ = best_passages({"": whole}, question, budget_tokens, overhead, rate)
    return "\n".join(f"{passage.where}\n{passage.text}" for passage in passages)


def head(whole: object, question: str, budget_tokens: int) -> str:
    """Beginning of the document."""
    del question
    return cut_to_tokens(write_out(whole), budget_tokens)


def plain_bm25(whole: object, question: str, budget_tokens: int) -> str:
    """Chunks of one size in BM25's ranking."""
    text = write_out(whole)
    chunks = [text[index : index + CHUNK] for index in range(0, len(text), CHUNK - OVERLAP)]
    counts = [Counter(terms(chunk)) for chunk in chunks]
    mean = sum(count.total() for count in counts) / len(counts)
    rated = [0.0] * len(chunks)
    for term in set(terms(question)) - REQUEST_WORDS:
        holders = sum(1 for count in counts if term in count)
        rarity = log1p((len(chunks) - holders + 0.5) / (holders + 0.5))
        for index, count in enumerate(counts):
            norm = count[term] + K1 * (1 - B + B * count.total() / mean)
            rated[index] += rarity * count[term] * (K1 + 1) / norm
    left: list[str] = []
    for index in sorted(range(len(chunks)), key=lambda index: (-rated[index], index)):
        room = budget_tokens - tokens("\n".join(left))
        if room <= 1:
            break
        left.append(cut_to_tokens(chunks[index], room - 1))
    return "\n".join(left)


OTHERS: Final[dict[str, Compressor]] = {"BM25 over chunks": plain_bm25, "the beginning": head}
BY_WORDS: Final = "passages by words"
BY_BOTH: Final = "passages by words and vectors"
BESIDE: Final = ", with what stands beside them"


def compressors() -> dict[str, Compressor]:
    """All compressors that can be measured here, by name; those with vectors if their encoder is installed."""
    rates = {BY_WORDS: scores}
    if not missing_modules():
        from fairlead_search.passage_vectors import PassageVectors

        rates[BY_BOTH] = partial(PassageVectors().scores, seconds=ENCODING_S)
    ours: dict[str, Compressor] = {}
    for name, rate in rates.items():
        ours[name] = partial(picked, 0, rate)
        ours[name + BESIDE] = partial(picked, OVERHEAD_TOKENS, rate)
    return ours | OTHERS


@cache
def texts() -> dict[str, str]:
    """Results in printed form, by name."""
    lines = lzma.decompress((FOLDER / "results.jsonl.xz").read_bytes()).decode().split("\n")
    return {line["name"]: line["text"] for line in map(json.loads, filter(None, lines))}


@cache
def results() -> dict[str, object]:
    """Documents by name as the gateway reads them: text, or decoded JSON."""
    return {
        name: document(json.dumps({"content": [{"type": "text", "text": text}]}).encode())
        for name, text in texts().items()
    }


def facts(half: str) -> list[Fact]:
    """Questions of `tuning`, `held` or `fresh`. Raises ValueError if a result does not contain the answer."""
    all_facts = []
    for line in (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines():
        line_document = json.loads(line)
        places = [
            passage
            for passage in _places(results()[line_document["result"]])
            if contains(line_document["answer"], passage)
        ]
        if not places:
            raise ValueError(f"{line_document['result']} does not have {line_document['answer']!r}")
        question_terms = _content(line_document["question"])
        all_facts.append(Fact(**line_document, shared=any(question_terms & _content(passage) for passage in places)))
    return all_facts


def contains(answer: str, text: str) -> bool:
    """Whether a text contains the answer as whole words. Whitespace around JSON punctuation is ignored."""
    wanted, normal_text = _normal(answer), _normal(text)
    before = r"(?<!\w)" if wanted[:1].isalnum() else ""
    behind = r"(?!\w)" if wanted[-1:].isdigit() else ""
    return re.search(f"{before}{re.escape(wanted)}{behind}", normal_text) is not None


def measured(half: str, report: Report, columns: dict[str, Cell]) -> None:
    """One row for each compressor, and the goals of Fairlead's."""
    half_facts = facts(half)
    shares: dict[str, dict[str, float]] = {}
    every = compressors()
    for name, compress in every.items():
        spent: list[float] = []
        left_facts = [(fact.shared, _is_left(compress, fact, spent)) for fact in half_facts]
        shared = [left for is_shared, left in left_facts if is_shared]
        paraphrased = [left for is_shared, left in left_facts if not is_shared]
        both = [left for _, left in left_facts]
        row = {"shared": _mean(shared), "paraphrased": _mean(paraphrased), "facts": _mean(both)}
        shares[name] = row
        times = dict(zip(TIMES, quantiles(spent), strict=True))
        report.rows.append({**columns, "what": f"compression: {name}", "queries": half, **row, **times})
    if BY_BOTH not in every:
        report.notes.append(f"no vectors were measured: {', '.join(missing_modules())} is not installed")
    mine, others = shares[BY_BOTH if BY_BOTH in every else BY_WORDS], [shares[name] for name in OTHERS]
    for column, least in GOALS:
        report.goals.append(Goal(f"facts kept, {column}, {half}", mine[column], "", at_least=least))
        above = mine[column] - max(other[column] for other in others)
        report.goals.append(Goal(f"above the better of the others, {column}, {half}", above, "", at_least=MARGIN))
    count = sum(fact.shared for fact in half_facts)
    report.notes.append(
        f"compression, {half}: {len(half_facts)} questions to {len({fact.result for fact in half_facts})} results, "
        f"{count} share a word with their answer's place, {len(half_facts) - count} do not"
    )


def quantiles(spent: list[float]) -> tuple[float, float]:
    """Median and 99th percentile."""
    ordered = sorted(spent)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def _is_left(compress: Compressor, fact: Fact, spent: list[float]) -> bool:
    """Whether the compressed text contains the answer. The milliseconds are appended to `spent`."""
    whole = results()[fact.result]
    budget = tokens(write_out(whole)) // RATIO
    begun = time.perf_counter()
    left = compress(whole, fact.question, budget)
    spent.append((time.perf_counter() - begun) * 1000)
    if tokens(left) > budget + 4:
        raise AssertionError(f"{fact.result}: {tokens(left)} tokens are left, and {budget} may be")
    return contains(fact.answer, left)


def _mean(values: list[bool]) -> float:
    return sum(values) / len(values) if values else 0.0


def _content(text: str) -> set[str]:
    return set(terms(text)) - QUESTION_WORDS


def _normal(text: str) -> str:
    plain = text.replace("\\n", " ").replace('\\"', '"')
    return re.sub(r' ?([":,{}\[\]]) ?', r"\1", " ".join(plain.split()))


def _places(whole: Any) -> Iterator[str]:
    """Lines of a text, or the scalar members of each object of a JSON document."""
    if isinstance(whole, str):
        yield from whole.splitlines()
    elif isinstance(whole, list):
        for item in whole:
            yield from _places(item) if isinstance(item, dict | list) else [json.dumps(item, ensure_ascii=False)]
    else:
        scalars = {name: item for name, item in whole.items() if not isinstance(item, dict | list)}
        lines = [item for item in scalars.values() if isinstance(item, str) and "\n" in item]
        for text in lines:
            yield from text.splitlines()
        yield json.dumps({name: item for name, item in scalars.items() if item not in lines}, ensure_ascii=False)
        for item in whole.values():
            if isinstance(item, dict | list):
                yield from _places(item)
