"""All faults of servers that Fairlead has to tolerate: small real servers, each with its expected status.

`TABLE` has them by name. Each server that lists any tool also lists the tool "good", which has to stay usable.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rawserver import Handler, Reply, Request
from toolservers import BROKEN, Item, answer_modern, tool

LONG: Final = "n" * 200


@dataclass(frozen=True)
class Bad:
    """One fault. `ready` and `reason` are the expected statuses of Ready and Verified, `offered` the tools that are
    listed.
    """

    handler: Handler
    ready: str
    reason: str
    offered: tuple[str, ...] = ()


def lists(*tools: Item) -> Handler:
    """A modern server with these tools and "good". A call returns the name of the tool."""
    every = [tool("good"), *tools]

    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, every, call=name_result)

    return handle


def name_result(request: Request) -> dict[str, Any]:
    """Result of a call, whose text is the name of the tool."""
    return {"content": [{"type": "text", "text": request.params["name"]}], "isError": False}


def _unless(method: str, otherwise: Handler) -> Handler:
    """A server that answers correctly, except for one method."""
    rightly = lists()

    async def handle(request: Request, reply: Reply) -> None:
        await (otherwise if request.method == method else rightly)(request, reply)

    return handle


async def _pings_forever(request: Request, reply: Reply) -> None:
    reply.open_stream()
    while not reply.writer.is_closing():
        reply.chunk(b": still there\n\n")
        await reply.flush()
        await asyncio.sleep(0.05)


async def _one_event_without_an_end(request: Request, reply: Reply) -> None:
    reply.open_stream()
    reply.chunk(b"data: ")
    while not reply.writer.is_closing():
        reply.chunk(b"x" * 65_536)
        await reply.flush()
        await asyncio.sleep(0)


async def _json_without_an_end(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    reply.chunk(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[')
    while not reply.writer.is_closing():
        reply.chunk(b'{"name":"good"},' * 4096)
        await reply.flush()
        await asyncio.sleep(0)


async def _never(request: Request, reply: Reply) -> None:
    await asyncio.Event().wait()


async def _closes_after_each(request: Request, reply: Reply) -> None:
    await lists()(request, reply)
    reply.close()


async def _answers_twice(request: Request, reply: Reply) -> None:
    await lists()(request, reply)
    await lists()(request, reply)


_pages = itertools.count(1)


async def _pages_forever(request: Request, reply: Reply) -> None:
    if request.method != "tools/list":
        return await lists()(request, reply)
    number = next(_pages)
    page = {"tools": [tool(f"tool-{number}")], "nextCursor": f"page-{number}", "resultType": "complete"}
    return reply.result(request, page)


def _bare(name: str) -> Item:
    return {"name": name, "description": "has no inputSchema"}


def _many(count: int) -> Sequence[Item]:
    return [tool(f"tool-{number:04}") for number in range(count)]


TABLE: Final[dict[str, Bad]] = {
    "wants-401": Bad(BROKEN["401"], "False", "Unauthorized"),
    "forbids-403": Bad(BROKEN["403"], "False", "Forbidden"),
    "other-host-421": Bad(BROKEN["421"], "False", "MisdirectedRequest"),
    "nginx": Bad(BROKEN["html"], "False", "HTMLInsteadOfMCP"),
    "half-a-json": Bad(BROKEN["half json"], "False", "TruncatedJSON"),
    "half-a-listing": Bad(_unless("tools/list", BROKEN["half json"]), "False", "TruncatedJSON"),
    "endless-pings": Bad(_unless("tools/list", _pings_forever), "False", "Timeout"),
    "endless-event": Bad(_unless("tools/list", _one_event_without_an_end), "False", "AnswerTooLarge"),
    "endless-json": Bad(_unless("tools/list", _json_without_an_end), "False", "AnswerTooLarge"),
    "redirect": Bad(BROKEN["redirect"], "False", "Redirected"),
    "page-loop": Bad(_unless("tools/list", BROKEN["page loop"]), "True", "MendedAnswers", ("again",)),
    "pages-forever": Bad(_pages_forever, "False", "TooManyPages"),
    "two-minutes": Bad(_unless("tools/list", _never), "False", "Timeout"),
    "closes-after-each": Bad(_closes_after_each, "True", "Verified", ("good",)),
    "answers-twice": Bad(_answers_twice, "True", "Verified", ("good",)),
    "two-thousand-tools": Bad(
        lists(*_many(1999)), "True", "Verified", ("good", *(f"tool-{number:04}" for number in range(1999)))
    ),
    "duplicate-names": Bad(lists(tool("good", description="another")), "True", "DuplicateNames", ("good",)),
    "no-schema": Bad(lists(_bare("bare")), "True", "InvalidSchemas", ("good",)),
    "five-megabytes": Bad(
        lists(tool("large", inputSchema={"type": "object", "description": "s" * (5 << 20)})),
        "True",
        "DefinitionsTooLarge",
        ("good",),
    ),
    "one-megabyte": Bad(lists(tool("large", description="d" * (1 << 20))), "True", "DefinitionsTooLarge", ("good",)),
    "spaces": Bad(lists(tool("with some spaces")), "True", "UnusualNames", ("good", "with some spaces")),
    "slashes": Bad(lists(tool("files/read")), "True", "UnusualNames", ("files/read", "good")),
    "long-name": Bad(lists(tool(LONG)), "True", "UnusualNames", ("good", LONG)),
    "control-characters": Bad(lists(tool("good\x1b[2J\n")), "True", "InvalidNames", ("good",)),
    "all-of-it": Bad(
        lists(tool("good"), _bare("bare"), tool("a\x00b"), tool("x y")), "True", "VerifiedInPart", ("good", "x y")
    ),
}
