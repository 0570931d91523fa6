"""The gateway creates the console once, at the first request for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Scope

from fairlead_app.served_console import ServedConsole
from fairlead_gateway.deferred import Deferred
from fairlead_gateway.heap import Heap


class Pages:
    """A console that counts how often it was created, and accepts every request."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def request(self, scope: Scope) -> str:
        return str(scope["path"])


def scope(path: str, accept: str = "") -> Scope:
    return {"type": "http", "method": "GET", "path": path, "headers": [(b"accept", accept.encode())]}


def make_deferred(make: Callable[[], Any]) -> Deferred[Any]:
    return Deferred(make, Heap(owner=False))


async def takes_requests(console: ServedConsole, *requests: Scope) -> list[Any]:
    """For requests that arrive at the same time: whether the console takes each of them."""
    return await asyncio.gather(*map(console.request, requests))


@pytest.fixture
def console() -> ServedConsole:
    Pages.made = 0
    return ServedConsole(make_deferred(Pages))


async def test_requests_that_come_at_once_have_the_console_made_once(console: ServedConsole) -> None:
    assert await takes_requests(console, *[scope("/console/servers")] * 5) == ["/console/servers"] * 5
    assert Pages.made == 1


async def test_a_browser_at_the_root_has_the_console_made_and_a_program_has_not(console: ServedConsole) -> None:
    assert await takes_requests(console, scope("/"), scope("/v1/tools", "text/html")) == [None, None]
    assert Pages.made == 0
    assert await takes_requests(console, scope("/", "text/html,*/*")) == ["/"]


async def test_a_console_that_cannot_be_made_is_tried_again_with_the_next_request() -> None:
    faults = iter([ImportError("no templates")])

    def make() -> Any:
        for fault in faults:
            raise fault
        return Pages()

    console = ServedConsole(make_deferred(make))
    with pytest.raises(ImportError, match="no templates"):
        await takes_requests(console, scope("/console/"))
    assert await takes_requests(console, scope("/console/")) == ["/console/"]


async def test_a_console_that_is_off_takes_no_request() -> None:
    assert await takes_requests(ServedConsole(None), scope("/console/")) == [None]


def test_a_gateway_does_not_load_pages_that_nobody_asked_for() -> None:
    program = (
        "import sys, fairlead_app.compose; print([name for name in sys.modules if name.startswith('fairlead_console')])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    light = ("settings", "paths", "trace_url")  # its settings, which requests it takes, and whether a setting is valid
    assert told.stdout.strip() == str(["fairlead_console", *(f"fairlead_console.{name}" for name in light)])


def test_a_console_at_which_nobody_signs_in_by_a_provider_loads_no_http_client() -> None:
    program = "import sys, fairlead_console.application; print('aiohttp' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
