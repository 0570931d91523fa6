"""Stored results whose form makes reading them difficult."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from fairlead_gateway.core.long_results import LEAST_TOKENS
from fairlead_offers.results.result_documents import DEEPEST, contents, document
from fairlead_offers.results.session_context import DATA, ContextPassage, RetrievedContext
from fairlead_offers.results.stored_results import Reading, ReadPassages, StoredResult, read
from fairlead_search.passages import Lines
from fairlead_search.token_estimate import BYTES_PER_TOKEN

encode = msgspec.msgpack.Encoder().encode


@pytest.mark.parametrize("depth", [DEEPEST - 3, DEEPEST, 990, 5000])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_result_that_is_nested_however_deeply_hides_no_other_of_its_session(depth: int, as_text: bool) -> None:
    nested = "[" * depth + '"the keel"' + "]" * depth
    if as_text:
        deep = json.dumps({"content": [{"type": "text", "text": nested}]}).encode()
    else:
        deep = b'{"structuredContent":{"k":%b}}' % nested.encode()
    plain = StoredResult("s/2", b'{"content":[{"type":"text","text":"A keel of oak"}]}')
    passages = read(encode(Reading([StoredResult("s/1", deep), plain], 2000, query="keel"))).passages
    assert {passage.source for passage in passages} == {"s/1", "s/2"}
    (whole,) = read(encode(Reading([StoredResult("s/1", deep)], 9000, grep="keel"))).passages
    assert "the keel" in whole.text


@pytest.mark.parametrize("budget", [LEAST_TOKENS, LEAST_TOKENS + 1, 400, 1000])
@pytest.mark.parametrize("reading", [{"query": "keel"}, {"grep": "keel"}, {"path": "log"}, {"lines": Lines(1, 3000)}])
def test_the_least_budget_has_room_for_text_and_every_one_is_kept_with_all_that_stands_beside_it(
    budget: int, reading: dict[str, Any]
) -> None:
    log = [f"entry {number}: the keel is laid, of oak" for number in range(3000)]
    result = StoredResult("s" * 22 + "/5b2ac98c", json.dumps({"structuredContent": {"log": log}}).encode())
    answer_read = read(encode(Reading([result], budget, **reading)))
    shown = [
        ContextPassage(
            part.source,
            "shipyard__list_entries",
            "2026-11-23T18:50:24Z",
            "5b2ac98c5b2a",
            part.where,
            part.text,
            part.score,
        )
        for part in answer_read.passages
    ]
    answer = RetrievedContext(shown, DATA, 1, answer_read.lines, answer_read.cut)
    assert answer_read.cut
    assert len(shown[0].text) > 150
    assert len(msgspec.json.encode(answer)) <= budget * BYTES_PER_TOKEN


def test_a_long_path_leaves_room_for_text() -> None:
    name = "k" * 900
    result = StoredResult("s/1", json.dumps({"structuredContent": {name: "the keel " * 400}}).encode())
    (shown,) = read(encode(Reading([result], LEAST_TOKENS, path=name))).passages
    assert "the keel the keel" in shown.text
    (matching,) = read(encode(Reading([result], LEAST_TOKENS, query="keel"))).passages
    assert "the keel the keel" in matching.text


def test_a_query_whose_passages_all_fit_says_that_nothing_was_cut() -> None:
    result = StoredResult("s/1", b'{"content":[{"type":"text","text":"A keel of oak"}]}')
    assert not read(encode(Reading([result], LEAST_TOKENS, query="keel"))).cut


def one_line(rows: int) -> str:
    """JSON without a line break. Only row 700 has a keel."""
    table = [{"id": row, "part": "keel" if row == 700 else "mast"} for row in range(rows)]
    return json.dumps({"note": "not JSON as a whole", "rows": table}, separators=(",", ":"))


def result_of(*texts: str, **members: Any) -> StoredResult:
    blocks = [{"type": "text", "text": text} for text in texts]
    return StoredResult("s/1", json.dumps({"content": blocks, **members}).encode())


def read_on(result: StoredResult, budget: int = 400, **options: Any) -> ReadPassages:
    return read(encode(Reading([result], budget, **options)))


@pytest.mark.parametrize("pattern", ["keel", ".*keel.*", "^.*keel.*$", '"id":700,"part":"KEEL"'])
def test_a_pattern_shows_the_surroundings_of_a_match_in_a_line_longer_than_the_budget(pattern: str) -> None:
    text = "Rows: " + one_line(2000)
    (part,) = read_on(result_of(text), grep=pattern).passages
    number, column, excerpt = part.text.split(":", 2)
    assert (number, '{"id":700,"part":"keel"}' in excerpt) == ("1", True)
    shown = excerpt.strip().strip("…")
    assert text[int(column) - 1 :].startswith(shown), "the column is that of the first character shown"
    assert excerpt.strip().startswith("…")
    assert excerpt.endswith("…")


def test_matches_in_a_long_line_come_once_each_and_those_side_by_side_together() -> None:
    line = "x" * 5000 + "keel keel" + "y" * 5000 + "keel" + "z" * 5000
    (part,) = read_on(result_of(line), 1000, grep="keel").passages
    assert [shown.count("keel") for shown in part.text.splitlines()] == [2, 1]
    (full,) = read_on(result_of("ab" * 50_000), grep="a").passages
    assert len(full.text) <= 400 * BYTES_PER_TOKEN
    excerpts = [shown.split(": ", 1) for shown in full.text.splitlines()]
    for (where, shown), (after, _) in pairwise(excerpts):
        start, following = (int(each.split(":")[1]) for each in (where, after))
        assert start + len(shown.strip("…")) <= following, "no part of the line comes twice"


@pytest.mark.parametrize("text", ["word " * 4000, '\u4f60\u597d"' * 3000, "one\n" + "two " * 3000 + "\nthree"])
def test_a_long_line_is_read_to_its_end_by_the_characters_at_which_each_part_was_cut(text: str) -> None:
    count = len(text.splitlines())
    line = 1
    column = 1
    parts = ""
    for _ in range(200):
        answer = read_on(result_of(text), lines=Lines(line, count, column))
        (part,) = answer.passages
        parts += part.text
        if not answer.cut:
            break
        line, column = map(int, part.where.rpartition("-")[2].split(":"))
        column += 1
    assert parts == text


def test_a_part_by_its_path_is_read_by_lines_or_by_a_pattern() -> None:
    log = [f"entry {number}" for number in range(500)]
    result = result_of(json.dumps({"ship": {"log": "\n".join(log)}}))
    answer = read_on(result, path="ship.log", lines=Lines(41, 42))
    assert (answer.passages[0].text, answer.passages[0].where) == ("entry 40\nentry 41", "ship.log lines 41-42")
    assert answer.lines == 500
    assert read_on(result, path="ship.log", grep="entry 40$").passages[0].text == "41: entry 40"


LOG = "\n".join(f"entry {number}" for number in range(900))
ROWS = [{"id": number} for number in range(900)]


@pytest.mark.parametrize(
    ("blocks", "structured"),
    [
        ([LOG], {"result": LOG}),
        ([LOG], {"content": LOG + "\n"}),
        ([LOG], {"result": LOG, "error": None}),
        ([LOG], {"content": [{"type": "text", "text": LOG}]}),
        ([LOG, "end"], {"result": [LOG, "end"]}),
        ([json.dumps([LOG, "end"])], {"result": [LOG, "end"]}),
        ([json.dumps({"result": LOG})], {"result": LOG}),
        ([LOG], {"lines": 900}),
    ],
)
def test_where_structured_content_only_wraps_the_text_the_text_is_read(blocks: list[str], structured: Any) -> None:
    result = result_of(*blocks, structuredContent=structured)
    assert str(document(result.result)).startswith("entry 0\nentry 1\n")
    assert read_on(result, lines=Lines(300, 300)).passages[0].text == "entry 299"
    (name,) = [name for name, value in structured.items() if value is not None]
    assert read_on(result, path=name).missing is None, "its path leads to it all the same"
    assert read_on(result, path="elsewhere").missing == "elsewhere"


@pytest.mark.parametrize(
    ("blocks", "structured"),
    [
        ([json.dumps({"rows": ROWS}, indent=2)], {"rows": ROWS}),
        (["900 rows"], {"rows": ROWS}),
        ([json.dumps(row) for row in ROWS], {"rows": ROWS}),
        ([json.dumps(ROWS[0])], {"rows": ROWS[:1]}),
        (["wren", "heron"], {"names": ["wren", "heron"]}),
        ([], {"rows": ROWS}),
    ],
)
def test_structured_content_that_says_more_than_the_text_is_read(blocks: list[str], structured: Any) -> None:
    assert document(result_of(*blocks, structuredContent=structured).result) == structured


def test_texts_that_are_json_each_are_one_list() -> None:
    assert document(result_of(*map(json.dumps, ROWS)).result) == ROWS


def test_the_whole_has_both_forms_that_differ_and_the_data_of_embedded_resources() -> None:
    blob = {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA", "mimeType": "application/pdf"}}
    raw = json.dumps({"content": [{"type": "text", "text": "900 rows"}, blob], "structuredContent": {"rows": ROWS}})
    parts = json.loads(contents(raw.encode(), "fairlead://results/s/1"))["contents"]
    assert [part["mimeType"] for part in parts] == ["application/json", "text/plain", "application/pdf"]
    assert parts[1]["text"] == "900 rows\n[resource application/pdf, 3 bytes]"
    assert parts[2]["blob"] == "AAAA"
