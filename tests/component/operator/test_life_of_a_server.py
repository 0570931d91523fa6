"""The page docs/how-it-works/life-of-a-server.md: its links name existing code, and a real server takes its steps."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from operatorworld import World, running
from rawserver import Reply, Request, raw_server
from toolservers import answer_modern, tool

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-it-works" / "life-of-a-server.md").read_text()
LINK = re.compile(r"\[`([\w.]+)`\]\(\.\./\.\./(gateway|operator)/([\w/]+)\.py\)")


def part(heading: str) -> str:
    return re.split(r"^#+ ", PAGE.partition(f"# {heading}\n")[2], flags=re.MULTILINE)[0]


def links_in(text: str) -> list[str]:
    """`file::symbol` of each link in a text."""
    return [f"{file}::{symbol}" for symbol, _, file in LINK.findall(text)]


def test_each_name_of_the_page_is_defined_in_the_file_that_it_links_to() -> None:
    assert len(links_in(part("From the event to the ConfigMap"))) > 10
    for name in links_in(PAGE):
        file, _, symbol = name.partition("::")
        value: Any = importlib.import_module(file.replace("/", "."))
        for each in symbol.split("."):
            value = inspect.getattr_static(value, each)
        assert value.__module__.replace(".", "/") == file, name


@contextmanager
def trace_calls(seen: list[str]) -> Iterator[None]:
    """Record the operator's functions that this thread and new threads call."""
    roots = (f"{ROOT / 'gateway'}/", f"{ROOT / 'operator'}/")

    def note(stack_frame: FrameType, event: str, _: Any) -> None:
        code = stack_frame.f_code
        for root in roots:
            if event == "call" and code.co_filename.startswith(root):
                seen.append(f"{code.co_filename[len(root) :].removesuffix('.py')}::{code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def in_order(seen: list[str], wanted: list[str]) -> None:
    at = 0
    for number, step in enumerate(wanted):
        assert step in seen[at:], (step, wanted[:number], json.dumps(seen[at : at + 200], indent=1))
        at = seen.index(step, at) + 1


async def test_a_server_takes_the_steps_in_the_order_of_the_page_when_it_is_created_and_when_it_is_deleted(
    world: World,
) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, [tool("add")])

    seen: list[str] = []
    async with raw_server(handle) as server:
        with trace_calls(seen):
            async with running(world) as operator:
                await world.until("leading", lambda: operator.controller)
                await world.until("Kopf watches", lambda: "kopf" in {thread.name for thread in threading.enumerate()})
                seen.clear()
                world.create("demo", {"url": server.url})
                await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
                created = [*seen]
                seen.clear()
                world.request("DELETE", world.server_path("demo"))
                await world.until("withdrawn", lambda: world.catalog("demo") is None)
                deleted = [*seen]
    in_order(created, links_in(part("From the event to the ConfigMap")))
    in_order(deleted, links_in(part("When it is deleted")))
