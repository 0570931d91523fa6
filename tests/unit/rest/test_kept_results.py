"""Results that are hard to read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fairlead_gateway.core.long_results import LEAST_TOKENS
from fairlead_rest.kept_results import DEEPEST, KeptResult, Reading, read
from fairlead_rest.session_context import DATA, ContextPassage, RetrievedContext
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
    plain = KeptResult("s/2", b'{"content":[{"type":"text","text":"A keel of oak"}]}')
    found = read(encode(Reading([KeptResult("s/1", deep), plain], 2000, query="keel"))).passages
    assert {passage.source for passage in found} == {"s/1", "s/2"}
    (whole,) = read(encode(Reading([KeptResult("s/1", deep)], 9000, grep="keel"))).passages
    assert "the keel" in whole.text


@pytest.mark.parametrize("budget", [LEAST_TOKENS, LEAST_TOKENS + 1, 400, 1000])
@pytest.mark.parametrize("asked", [{"query": "keel"}, {"grep": "keel"}, {"path": "log"}, {"first": 1, "last": 3000}])
def test_the_least_budget_has_room_for_text_and_every_one_is_kept_with_all_that_stands_beside_it(
    budget: int, asked: dict[str, Any]
) -> None:
    log = [f"entry {number}: the keel is laid, of oak" for number in range(3000)]
    kept = KeptResult("s" * 22 + "/5b2ac98c", json.dumps({"structuredContent": {"log": log}}).encode())
    found = read(encode(Reading([kept], budget, **asked)))
    shown = [
        ContextPassage(part.source, "shipyard__list_entries", "2026-11-23T18:50:24Z", "5b2ac98c5b2a", part.where,
                       part.text, part.score)
        for part in found.passages
    ]  # fmt: skip
    answer = RetrievedContext(shown, DATA, 1, found.lines, found.cut)
    assert found.cut
    assert len(shown[0].text) > 150
    assert len(msgspec.json.encode(answer)) <= budget * BYTES_PER_TOKEN


def test_a_long_path_leaves_room_for_text() -> None:
    name = "k" * 900
    kept = KeptResult("s/1", json.dumps({"structuredContent": {name: "the keel " * 400}}).encode())
    (shown,) = read(encode(Reading([kept], LEAST_TOKENS, path=name))).passages
    assert "the keel the keel" in shown.text
    (found,) = read(encode(Reading([kept], LEAST_TOKENS, query="keel"))).passages
    assert "the keel the keel" in found.text


def test_a_query_whose_passages_all_fit_says_that_nothing_was_cut() -> None:
    kept = KeptResult("s/1", b'{"content":[{"type":"text","text":"A keel of oak"}]}')
    assert not read(encode(Reading([kept], LEAST_TOKENS, query="keel"))).cut
