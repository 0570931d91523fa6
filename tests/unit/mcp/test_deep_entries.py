"""Lists with an entry that is nested too deeply: only that entry is dropped, and results of tools are never cut."""

from __future__ import annotations

import json
import sys

import msgspec
import pytest

from fairlead_mcp import deep_entries, mending
from fairlead_mcp.deep_entries import MAX_BYTES, MAX_DEPTH, MAX_OPENED

LEVELS = 20_000
DEEP = b'{"name":"deep","_meta":' + b'{"a":[' * LEVELS + b'"]}"' + b"]}" * LEVELS + b"}"


def response(member: str, *entries: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"result":{"%b":[%b]}}' % (member.encode(), b",".join(entries))


@pytest.mark.parametrize("member", ["tools", "prompts", "resources", "resourceTemplates", "skills"])
def test_a_list_with_an_entry_that_is_nested_too_deeply_keeps_its_other_entries(member: str) -> None:
    others = b'{"name":"a }]\\" b"}', b'{"name":"b","x":[[{}],{"c":[]}]}'
    message = response(member, others[0], DEEP, others[1])
    with pytest.raises(RecursionError):
        msgspec.json.decode(message)
    mended = mending.mend(message)
    assert mended is not None
    first, deep, last = json.loads(mended)["result"][member]
    assert (first, last) == (json.loads(others[0]), json.loads(others[1]))
    assert deep["name"] == "deep"
    assert bytes(mended).count(b"{") + bytes(mended).count(b"[") < MAX_DEPTH + 20


def test_a_long_list_with_an_entry_that_is_nested_too_deeply_is_read_too() -> None:
    message = response("tools", DEEP, b'{"name":"b","description":"%b"}' % (b"x" * mending.MAX_BYTES))
    mended = mending.mend(message)
    assert mended is not None
    assert [entry["name"] for entry in json.loads(mended)["result"]["tools"]] == ["deep", "b"]


@pytest.mark.parametrize(
    "message",
    [
        response("content", DEEP),
        b'{"jsonrpc":"2.0","id":7,"result":{"structuredContent":%b}}' % DEEP,
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"tools":[%b],"result":1}}' % DEEP,
        response("tools", DEEP)[:-1],
        response("tools", DEEP, b'"%b"' % (b"x" * MAX_BYTES)),
        response("tools", DEEP, b"[" * (MAX_OPENED // 2) + b"]" * (MAX_OPENED // 2), b"[]" * MAX_OPENED),
        response("tools", b'{"name":"a"}'),
        b"not JSON",
    ],
)
def test_messages_that_are_not_lists_or_cost_too_much_time_are_not_cut(message: bytes) -> None:
    assert deep_entries.remove_deep_values(message) is message


def test_an_answer_that_is_nested_too_deeply_fails_with_that_cause() -> None:
    message = response("content", DEEP)
    assert mending.mend(message) is None
    assert sys.getrecursionlimit() < LEVELS
    assert mending.explain_invalid_answer(message, RecursionError()) == "the answer is nested too deeply"
