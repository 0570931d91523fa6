"""Gateways with a console, and its browsers: a session, one page after the other, and the stream of events."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final

from gateway.gateways import VERSIONS, Target, catalog, contents, entry, gateway_over, start_upstream, write_documents
from rig.definitions import definition
from rig.harness import Unmeasurable
from rig.processes import Stage, ordinary

ERA: Final = "modern"
SERVERS: Final = 14
FIRST: Final = "/console/servers"
STAYING: Final = (5.0, 10.0)
"""Seconds between two requests of an open page that shows all servers, and of one that shows a tool."""
STEP: Final = 2.0
"""Seconds that a user who goes through all pages stays on each."""


@dataclass(frozen=True)
class ServedConsole:
    """A gateway with `tools` tools of SERVERS servers, all measured, and their common upstream."""

    gateway: Target
    upstream: Target


def start_console(stage: Stage, tools: int, cores: tuple[int, int]) -> ServedConsole:
    """Start the gateway on the first core and the upstream on the second."""
    upstream = start_upstream(stage, "upstream", cores[1])
    rng = random.Random(7)
    each = -(-tools // SERVERS)
    served = [catalog(ERA, upstream.port)]
    for number in range(SERVERS):
        own = (definition(index, rng) for index in range(each))
        entries = tuple(
            entry(f"{each_definition['name']}_{index}", renamed(each_definition, index))
            for index, each_definition in enumerate(own)
        )
        served.append(catalog(ERA, upstream.port, name=f"server{number:02d}", tools=entries))
    documents = stage.folder / "documents"
    write_documents(documents, contents(served))
    return ServedConsole(gateway_over(stage, documents, cores[0]), upstream)


def renamed(tool: dict[str, object], index: int) -> bytes:
    """A definition with a name that is unique on its server."""
    return json.dumps({**tool, "name": f"{tool['name']}_{index}"}).encode()


@dataclass
class Browser:
    """Connection and session of one browser. Not thread-safe."""

    port: int
    cookie: str = ""
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def page(self, path: str) -> tuple[bytes, int, float]:
        """Request a page: its HTML, bytes on the wire, and milliseconds until the last byte. Raises Unmeasurable."""
        headers = {"Accept": "text/html", "Accept-Encoding": "gzip", "Sec-Fetch-Dest": "document"}
        headers |= {"Cookie": self.cookie} if self.cookie else {}
        began = time.perf_counter()
        self.connection.request("GET", path, headers=headers)
        answer = self.connection.getresponse()
        body = answer.read()
        took = 1000 * (time.perf_counter() - began)
        if answer.status != 200:
            raise Unmeasurable(f"{path} answered {answer.status}")
        self.cookie = (answer.getheader("Set-Cookie") or self.cookie).partition(";")[0]
        zipped = answer.getheader("Content-Encoding") == "gzip"
        return gzip.decompress(body) if zipped else body, len(body), took

    def pages(self) -> list[str]:
        """All pages of the navigation, and those of the first server and the first tool."""
        first = self.page(FIRST)[0].decode()
        paths = re.findall(r'href="(/console/[^"]+)"', first.partition("</nav>")[0].partition("<nav")[2])
        server = re.search(r'href="(/console/servers/[^"]+)"', first)
        tool = re.search(r'href="(/console/tools/[^"]+)"', self.page("/console/tools")[0].decode())
        if not paths or server is None or tool is None:
            raise Unmeasurable("the console's first pages have no links")
        return [*paths, server[1], tool[1]]

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


@dataclass
class OpenConsoles:
    """Requests of three open consoles, and their failures."""

    views: int = 0
    failures: list[str] = field(default_factory=list)


@contextmanager
def three_consoles(port: int, pages: Sequence[str]) -> Iterator[OpenConsoles]:
    """Open three consoles: one stays on the servers, one on a tool, one goes through `pages`. Each follows the
    events.
    """
    consoles, ending = OpenConsoles(), threading.Event()
    server_seconds, tool_seconds = STAYING
    ways = (([FIRST], server_seconds), ([pages[-1]], tool_seconds), (pages, STEP))
    threads = [threading.Thread(target=_look, args=(port, way, pause, consoles, ending)) for way, pause in ways]
    streams = [_Stream(port) for _ in threads]
    for thread in threads:
        thread.start()
    try:
        yield consoles
    finally:
        ending.set()
        for thread in threads:
            thread.join()
        for stream in streams:
            stream.close()
    if consoles.failures or not consoles.views:
        raise Unmeasurable(consoles.failures[0] if consoles.failures else "no page was seen")


def _look(port: int, way: Sequence[str], pause: float, consoles: OpenConsoles, ending: threading.Event) -> None:
    browser = Browser(port)
    try:
        with ordinary():  # a page must not delay a call
            for path in cycle(way):
                browser.page(path)
                consoles.views += 1
                if ending.wait(pause):
                    return
    except (OSError, Unmeasurable) as error:
        consoles.failures.append(str(error))
    finally:
        browser.close()


class _Stream:
    """An open stream of events."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.request("GET", "/console/events", headers={"Accept": "text/event-stream"})
        answer = self._connection.getresponse()
        if answer.status != 200:
            raise Unmeasurable(f"/console/events answered {answer.status}")

    def close(self) -> None:
        self._connection.close()


VERSION: Final = VERSIONS[ERA]
