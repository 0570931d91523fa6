"""Concurrent requests over one stream."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from fairlead_mcp.errors import ConnectionLost, McpError, NotMcp, PoolFull, Timeout
from fairlead_mcp.multiplex import Multiplexer

NEVER = float("inf")


class Stream:
    """A multiplexer, with a record of the lines that it writes."""

    def __init__(self, max_in_flight: int = 1024) -> None:
        self.sent: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.mux = Multiplexer(
            lambda line: self.sent.append(json.loads(line)),
            on_notification=lambda method, line: self.notes.append(method),
            max_in_flight=max_in_flight,
        )

    def answer(self, ident: object, result: object = None) -> None:
        self.mux.feed(json.dumps({"result": result or {}, "jsonrpc": "2.0", "id": ident}).encode())

    def ask(self, method: str = "m", params: bytes | None = None, **more: Any) -> asyncio.Task[bytes]:
        more.setdefault("deadline", NEVER)
        return asyncio.ensure_future(self.mux.request(method, params, **more))


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_thousands_of_interleaved_requests_each_get_their_own_answer() -> None:
    stream = Stream(max_in_flight=5000)
    shuffle = random.Random(1)
    requests = [stream.ask("m", b'{"n":%d}' % n) for n in range(5000)]
    await settle()
    waiting = [(message["id"], message["params"]["n"]) for message in stream.sent]
    shuffle.shuffle(waiting)
    for ident, n in waiting:
        stream.answer(ident, {"n": n})
    answers = await asyncio.gather(*requests)
    assert [json.loads(answer)["result"]["n"] for answer in answers] == list(range(5000))
    assert stream.mux.in_flight == 0


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
async def test_a_message_is_one_line_whatever_breaks_its_sender_wrote(end: bytes) -> None:
    lines: list[bytes] = []
    mux = Multiplexer(lines.append)
    request = asyncio.ensure_future(mux.request("m", b'{"a":%b[%b{"b":"\\n"}%b]}' % (end, end, end), deadline=NEVER))
    await settle()
    mux.notify("n", b"{%b}" % end)
    assert not any(b"\n" in line or b"\r" in line for line in lines)
    assert [json.loads(line)["params"] for line in lines] == [{"a": [{"b": "\n"}]}, {}]
    request.cancel()


async def test_equal_progress_tokens_of_two_callers_are_kept_apart() -> None:
    stream = Stream()
    got: list[tuple[str, bytes]] = []
    for name in ("one", "two"):
        params = b'{"name":"%b","_meta":{"progressToken":"same","x":1}}' % name.encode()
        stream.ask("tools/call", params, on_progress=lambda line, name=name: got.append((name, line)))
    await settle()
    tokens = [message["params"]["_meta"]["progressToken"] for message in stream.sent]
    assert len(set(tokens)) == 2
    assert all(message["params"]["_meta"]["x"] == 1 for message in stream.sent)
    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 5, "progressToken": tokens[1]}}
    stream.mux.feed(json.dumps(note).encode())
    [(name, line)] = got
    assert name == "two"
    assert json.loads(line)["params"] == {"progress": 5, "progressToken": "same"}
    for message in stream.sent:
        stream.answer(message["id"])
    await settle()
    stream.mux.feed(json.dumps(note).encode())
    assert len(got) == 1


async def test_params_that_only_mention_a_token_stay_byte_for_byte() -> None:
    lines: list[bytes] = []
    mux = Multiplexer(lines.append)
    params = b'{"arguments":{"text":"progressToken",  "n":1.0}}'
    request = asyncio.ensure_future(mux.request("tools/call", params, deadline=NEVER))
    await settle()
    assert params in lines[0]
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)


async def test_a_caller_that_gives_up_cancels_upstream_and_a_late_answer_harms_nobody() -> None:
    stream = Stream()
    first = stream.ask()
    second = stream.ask()
    await settle()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    note = stream.sent[-1]
    assert (note["method"], note["params"]["requestId"]) == ("notifications/cancelled", stream.sent[0]["id"])
    stream.answer(stream.sent[0]["id"], {"late": True})
    stream.answer(stream.sent[1]["id"], {"mine": True})
    assert json.loads(await second)["result"] == {"mine": True}


async def test_a_deadline_ends_the_wait_and_cancels_upstream() -> None:
    stream = Stream()
    with pytest.raises(Timeout) as caught:
        await stream.mux.request("tools/call", None, deadline=0)
    assert caught.value.sent
    assert [message["method"] for message in stream.sent] == ["tools/call", "notifications/cancelled"]


async def test_initialize_is_never_canceled() -> None:
    stream = Stream()
    with pytest.raises(Timeout):
        await stream.mux.request("initialize", None, deadline=0)
    assert [message["method"] for message in stream.sent] == ["initialize"]


async def test_a_request_of_the_server_is_answered_on_the_spot() -> None:
    stream = Stream()
    stream.mux.feed(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    stream.mux.feed(b'{"jsonrpc":"2.0","id":2,"method":"roots/list"}')
    assert stream.sent[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert stream.sent[1]["error"]["code"] == -32601


async def test_notifications_are_passed_on() -> None:
    stream = Stream()
    assert stream.mux.feed(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    assert stream.notes == ["notifications/tools/list_changed"]


@pytest.mark.parametrize("line", [b"Starting server...", b"[1]", b"{}", b'{"id":1}', b'"x"', b"\xff"])
async def test_lines_that_are_not_messages_are_not_taken(line: bytes) -> None:
    assert not Stream().mux.feed(line)


@pytest.mark.parametrize("ident", [None, 0, 99, "x", {}])
async def test_an_answer_with_an_id_that_no_request_has_fails_the_only_one_that_waits(ident: object) -> None:
    stream = Stream()
    request = stream.ask()
    await settle()
    stream.answer(ident)
    with pytest.raises(NotMcp, match="not the id of any request"):
        await request


async def test_an_odd_answer_costs_nothing_while_several_requests_wait() -> None:
    stream = Stream()
    requests = [stream.ask(), stream.ask()]
    await settle()
    stream.answer(99)
    stream.answer(1)
    stream.answer(99)
    stream.answer(2)
    assert len(await asyncio.gather(*requests)) == 2


async def test_as_many_odd_answers_as_requests_wait_fail_them() -> None:
    stream = Stream()
    requests = [stream.ask(), stream.ask()]
    await settle()
    stream.answer(0)
    stream.answer(0)
    assert [type(error) for error in await asyncio.gather(*requests, return_exceptions=True)] == [NotMcp, NotMcp]


async def test_a_late_answer_to_a_request_that_was_given_up_is_ignored() -> None:
    stream = Stream()
    abandoned = stream.ask()
    request = stream.ask()
    await settle()
    abandoned.cancel()
    await settle()
    assert stream.mux.feed(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert not request.done()
    stream.answer(2)
    await request


async def test_an_id_as_a_text_is_matched_with_the_number_that_it_is() -> None:
    stream = Stream()
    request = stream.ask()
    await settle()
    stream.answer("1", {"a": 1})
    assert json.loads(await request) == {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"v":NaN}}', "the answer has the value NaN, which JSON does not allow"),
        (b'{"jsonrpc":"2.0","result":{"v":-Infinity},"id":"1"}', "the answer has the value -Infinity"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"v":tru', "ends too early"),
        (b'{"jsonrpc":"2.0","id":1,"result":{nope}}', "the answer is not JSON"),
        (b'  "id": 1,', "the answer spans several lines"),
        ('{"id":1,"result":{}}'.encode("utf-16"), "the answer is encoded as UTF-16"),
        (b'{"id":1,"jsonrpc":"2.0"}', "neither result nor error"),
    ],
)
async def test_a_line_that_cannot_be_read_fails_the_request_that_it_shows_and_no_other(
    line: bytes, message: str
) -> None:
    stream = Stream()
    request = stream.ask()
    other = stream.ask()
    await settle()
    assert not stream.mux.feed(line)
    with pytest.raises(McpError, match=message):
        await request
    stream.answer(2)
    await other


async def test_the_messages_of_a_batch_are_taken_one_by_one() -> None:
    stream = Stream()
    requests = [stream.ask(), stream.ask()]
    await settle()
    stream.mux.feed(b' [{"id":2,"result":{}},[{"id":1,"result":{}}],{"id":1,"result":{"a":1}}]')
    assert [json.loads(answer)["id"] for answer in await asyncio.gather(*requests)] == [1, 2]


async def test_all_in_flight_fail_together_and_too_many_are_refused() -> None:
    stream = Stream(max_in_flight=2)
    requests = [stream.ask(), stream.ask()]
    await settle()
    with pytest.raises(PoolFull):
        await stream.mux.request("m", None, deadline=NEVER)
    stream.mux.fail_all(ConnectionLost("gone", sent=True))
    results = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionLost, ConnectionLost]
    assert repr(stream.mux) == "<Multiplexer: 0 in flight>"
