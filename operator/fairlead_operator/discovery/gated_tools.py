"""Completes a discovery by the tools that its server lists only to clients with a capability.

Calls of clients without capabilities run in sessions that declare none, so the listing without capabilities holds for
them. The result of the comparison (`fairlead_mcp.gated`) is kept while the server lists the same tools, so that a
server on stdio has no second process started with each discovery, and so that a comparison that fails takes no tool off
the lists. A slow one is not waited for: its tools are published afterwards. No second container is started: what it
costs, and what of it is shared with the first (ports, volumes, a name), is for the user to say.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import structs

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import Catalog, ChildEndpoint, Credential, Endpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.containers import starts_container
from fairlead_mcp.eras import Era, era_of
from fairlead_mcp.errors import McpError
from fairlead_mcp.gated import LOOK_SECONDS, Gated, find_gated_tools, name_of
from fairlead_mcp.session import McpSession
from fairlead_mcp.waiting import wait_until_set
from fairlead_operator.discovery.listing import RawListing
from fairlead_operator.ports import Connector

logger = logging.getLogger(__name__)

COMPARE_SECONDS: Final = 120.0
"""Bound of one comparison as a whole: up to six sessions, each of which may start a process through npx or uvx."""
KEPT_SECONDS: Final = 3600.0
"""How long the outcome of a comparison is kept at most; for ever where it takes a process of our own."""
GRACE_SECONDS: Final = 5.0
"""How long a discovery waits for a comparison, as far as nobody needs them in one piece."""
PAUSES: Final = (10.0, 60.0)
"""Seconds before further attempts at a comparison that failed: a machine is busiest while its servers start."""
PROCESSES: Final = 2
"""Comparisons that run side by side where each starts a process of our own."""
AT_ONCE: Final = 32
"""Comparisons that run side by side where none starts a process."""


@dataclass(frozen=True)
class _Comparison:
    """The last comparison of a server's lists."""

    endpoint: Endpoint
    of: str
    """Digest of the answer that it was compared with."""
    gated: tuple[Gated, ...] | None
    """None: it failed, and nothing was known before."""
    at: float
    """On the monotonic clock."""


@dataclass(frozen=True)
class _Running:
    """A comparison that has begun, with all its attempts."""

    of: str
    task: asyncio.Task[None]
    tried: asyncio.Event
    """Set when the first attempt is over."""


class CapabilityComparisons:
    """Comparisons of all servers. `compared(key)` is called when a comparison is over; it should be cheap."""

    def __init__(
        self,
        connector: Connector,
        compared: Callable[[ServerKey], None] = lambda key: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connector = connector
        self._compared = compared
        self._monotonic = monotonic
        self._looks: dict[ServerKey, _Comparison] = {}
        self._running: dict[ServerKey, _Running] = {}
        self._processes = asyncio.Semaphore(PROCESSES)
        self._places = asyncio.Semaphore(AT_ONCE)

    async def compare(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        listing: RawListing,
        *,
        again: bool,
        whole: bool,
    ) -> None:
        """Begin a comparison where one is due, and wait a while for its first attempt; as long as it takes where the
        answer is wanted as a `whole`. `again`: somebody wants the server asked again, which starts no second process as
        long as the server is the same. Raises nothing of the server's.
        """
        of, look, running = _compared_by(endpoint, listing), self._looks.get(key), self._running.get(key)
        if look is not None and look.endpoint != endpoint:
            look = None
            del self._looks[key]  # another server, of which nothing is known
        starts = isinstance(endpoint, ChildEndpoint) and era_of(listing.protocol_version) is Era.LEGACY
        if starts and starts_container(endpoint):
            self._looks[key] = _Comparison(endpoint, of, (), self._monotonic())
            return
        if running is None or running.task.done() or running.of != of:
            again = again and not (starts and look is not None and look.gated is not None)
            if look is not None and look.of == of and not again and not self._old(look):
                return
            if running is not None:
                running.task.cancel()
            tried = asyncio.Event()
            work = self._until_compared(key, endpoint, credential, listing, tried)
            task = asyncio.get_running_loop().create_task(work, name=f"comparison of {key}")
            running = self._running[key] = _Running(of, task, tried)
            task.add_done_callback(partial(self._after_task, key))
        await wait_until_set(running.tried, LOOK_SECONDS if whole else GRACE_SECONDS)

    def complete(self, key: ServerKey, listing: RawListing) -> RawListing:
        """`listing` with the tools behind client capabilities, as far as they are known."""
        look = self._looks.get(key)
        if look is None or look.gated is None:
            return structs.replace(listing, compared=False)
        names = set(map(name_of, listing.tools))
        gated = tuple(tool for tool in look.gated if name_of(tool.definition) not in names)
        requires = {name_of(tool.definition) or "": tool.requires for tool in gated}
        return structs.replace(listing, tools=(*listing.tools, *(tool.definition for tool in gated)), requires=requires)

    def forget(self, key: ServerKey) -> None:
        """The server is gone."""
        self._looks.pop(key, None)
        running = self._running.pop(key, None)
        if running is not None:
            running.task.cancel()

    async def aclose(self) -> None:
        """Cancel what runs and wait for its end."""
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _after_task(self, key: ServerKey, task: asyncio.Task[None]) -> None:
        running = self._running.get(key)
        if running is not None and running.task is task:
            del self._running[key]

    def _old(self, look: _Comparison) -> bool:
        return not isinstance(look.endpoint, ChildEndpoint) and self._monotonic() - look.at > KEPT_SECONDS

    async def _until_compared(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        listing: RawListing,
        tried: asyncio.Event,
    ) -> None:
        names = {name for name in map(name_of, listing.tools) if name is not None}
        declaring = self._declaring(key, endpoint, credential)
        places = self._processes if isinstance(endpoint, ChildEndpoint) else self._places
        before = self._looks.get(key)
        gated = None if before is None else before.gated
        for pause in (0.0, *PAUSES):
            await asyncio.sleep(pause)
            try:
                async with places, asyncio.timeout(COMPARE_SECONDS):
                    gated = await find_gated_tools(declaring, names, LOOK_SECONDS)
                self._looks[key] = _Comparison(endpoint, _compared_by(endpoint, listing), gated, self._monotonic())
                break
            except (McpError, TimeoutError) as error:
                why = str(error) or f"it took longer than {COMPARE_SECONDS:g} s"
                logger.info("%s was not asked for tools that need client capabilities: %s", key, why)
            except Exception:
                logger.exception("the comparison of %s broke down", key)
            finally:
                tried.set()
        else:
            self._looks[key] = _Comparison(endpoint, _compared_by(endpoint, listing), gated, self._monotonic())
        self._compared(key)

    def _declaring(
        self, key: ServerKey, endpoint: Endpoint, credential: Credential | None
    ) -> Callable[[bytes], AbstractAsyncContextManager[McpSession]]:
        return lambda capabilities: self._connector.session(key, endpoint, credential, capabilities=capabilities)


def _compared_by(endpoint: Endpoint, listing: RawListing) -> str:
    """Digest of what a comparison was made of: one made of something else is made again."""
    names = sorted({name_of(tool) or "" for tool in listing.tools})
    return sha256(
        repr(endpoint).encode(), listing.protocol_version.encode(), bytes(listing.server_info), repr(names).encode()
    )


def with_published(listing: RawListing, published: Catalog | None) -> RawListing:
    """`listing`, with what an operator that has just started can know from the catalog before alone: announcements, and
    where the server is not compared yet, its tools behind client capabilities.
    """
    if published is None:
        return listing
    listing = structs.replace(listing, announced={**published.announced, **listing.announced})
    if listing.compared:
        return listing
    names = set(map(name_of, listing.tools))
    hidden = [tool for tool in published.tools if tool.requires and tool.name not in names]
    requires = {tool.name: tool.requires for tool in hidden}
    return structs.replace(listing, tools=(*listing.tools, *(tool.definition for tool in hidden)), requires=requires)
