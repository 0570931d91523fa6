"""Adds to a discovery the tools that its server lists only to clients with certain capabilities.

The session of a discovery declares no capabilities, so that its list is valid for clients without capabilities too.
Tools that require capabilities ("gated tools") are detected by a capability comparison (`fairlead_mcp.gated`), which
needs a second session: for a stdio server, a second process. The result is reused while the server lists the same
tools, so that not every discovery starts a process; a failed comparison removes no tools. A discovery does not wait for
a slow comparison: the gated tools are published afterwards. A server in a container is not compared, because only the
user can decide whether a second container with the same ports, volumes and name may run.
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
from fairlead_mcp.gated import LISTING_SECONDS, Gated, find_gated_tools, name_of
from fairlead_mcp.server_listing import RawListing
from fairlead_mcp.session import McpSession
from fairlead_mcp.waiting import wait_until_set
from fairlead_operator.ports import Connector

logger = logging.getLogger(__name__)

COMPARE_SECONDS: Final = 120.0
"""Timeout of one comparison: up to six sessions, each of which may start a process through npx or uvx."""
MAX_AGE_SECONDS: Final = 3600.0
"""Seconds after which a result is outdated; the result of a child process never is."""
GRACE_SECONDS: Final = 5.0
"""Seconds that a discovery waits for its comparison, unless the result is required."""
PAUSES: Final = (10.0, 60.0)
"""Seconds before the second and third attempt. The first may fail because the machine is busy starting servers."""
PROCESS_COMPARISONS: Final = 2
"""Number of concurrent comparisons that start child processes."""
NETWORK_COMPARISONS: Final = 32
"""Number of concurrent comparisons over the network."""


@dataclass(frozen=True)
class _ComparisonResult:
    """Result of the last comparison of a server."""

    endpoint: Endpoint
    digest: str
    """Digest of the listing that was compared."""
    gated: tuple[Gated, ...] | None
    """The gated tools; None if the comparison failed and there is no earlier result."""
    at: float
    """Time of the comparison on the monotonic clock."""


@dataclass(frozen=True)
class _RunningComparison:
    """A running comparison with all its attempts."""

    digest: str
    task: asyncio.Task[None]
    first_attempt: asyncio.Event
    """Set after the first attempt, successful or not."""


class CapabilityComparisons:
    """The capability comparisons of all servers. Calls `on_compared(key)` after each; the callback should be fast."""

    def __init__(
        self,
        connector: Connector,
        on_compared: Callable[[ServerKey], None] = lambda key: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connector = connector
        self._on_compared = on_compared
        self._monotonic = monotonic
        self._results: dict[ServerKey, _ComparisonResult] = {}
        self._running_comparisons: dict[ServerKey, _RunningComparison] = {}
        self._processes = asyncio.Semaphore(PROCESS_COMPARISONS)
        self._slots = asyncio.Semaphore(NETWORK_COMPARISONS)

    async def compare(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        listing: RawListing,
        *,
        is_refresh: bool,
        required: bool,
    ) -> None:
        """Start a comparison if one is due, and wait for its first attempt: up to `GRACE_SECONDS`, or up to
        `LISTING_SECONDS` if the result is `required`. Errors of the server are not raised.

        `is_refresh`: a user requested it. The comparison is then repeated, unless it would start a second process of
        an unchanged server.
        """
        digest, result, comparison = (
            _digest_of(endpoint, listing),
            self._results.get(key),
            self._running_comparisons.get(key),
        )
        if result is not None and result.endpoint != endpoint:
            result = None
            del self._results[key]  # the result is of another endpoint
        starts_process = isinstance(endpoint, ChildEndpoint) and era_of(listing.protocol_version) is Era.LEGACY
        if starts_process and starts_container(endpoint):
            self._results[key] = _ComparisonResult(endpoint, digest, (), self._monotonic())
            return
        if comparison is None or comparison.task.done() or comparison.digest != digest:
            is_refresh = is_refresh and not (starts_process and result is not None and result.gated is not None)
            if result is not None and result.digest == digest and not is_refresh and not self._is_outdated(result):
                return
            if comparison is not None:
                comparison.task.cancel()
            first_attempt = asyncio.Event()
            work = self._compare_with_retries(key, endpoint, credential, listing, first_attempt)
            task = asyncio.get_running_loop().create_task(work, name=f"comparison of {key}")
            comparison = self._running_comparisons[key] = _RunningComparison(digest, task, first_attempt)
            task.add_done_callback(partial(self._after_task, key))
        await wait_until_set(comparison.first_attempt, LISTING_SECONDS if required else GRACE_SECONDS)

    def complete(self, key: ServerKey, listing: RawListing) -> RawListing:
        """`listing` with the gated tools of the last comparison."""
        result = self._results.get(key)
        if result is None or result.gated is None:
            return structs.replace(listing, compared=False)
        names = set(map(name_of, listing.tools))
        gated = tuple(tool for tool in result.gated if name_of(tool.definition) not in names)
        requires = {name_of(tool.definition) or "": tool.requires for tool in gated}
        return structs.replace(listing, tools=(*listing.tools, *(tool.definition for tool in gated)), requires=requires)

    def forget(self, key: ServerKey) -> None:
        """Forget a deleted server and cancel its comparison."""
        self._results.pop(key, None)
        comparison = self._running_comparisons.pop(key, None)
        if comparison is not None:
            comparison.task.cancel()

    async def aclose(self) -> None:
        """Cancel all comparisons and wait for their end."""
        tasks = [comparison.task for comparison in self._running_comparisons.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _after_task(self, key: ServerKey, task: asyncio.Task[None]) -> None:
        comparison = self._running_comparisons.get(key)
        if comparison is not None and comparison.task is task:
            del self._running_comparisons[key]

    def _is_outdated(self, result: _ComparisonResult) -> bool:
        return not isinstance(result.endpoint, ChildEndpoint) and self._monotonic() - result.at > MAX_AGE_SECONDS

    async def _compare_with_retries(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        listing: RawListing,
        first_attempt: asyncio.Event,
    ) -> None:
        """Compare until an attempt succeeds or all `PAUSES` are used, and store the result."""
        names = {name for name in map(name_of, listing.tools) if name is not None}
        open_session = self._session_opener(key, endpoint, credential)
        slots = self._processes if isinstance(endpoint, ChildEndpoint) else self._slots
        previous_result = self._results.get(key)
        gated = None if previous_result is None else previous_result.gated
        for pause in (0.0, *PAUSES):
            await asyncio.sleep(pause)
            try:
                async with slots, asyncio.timeout(COMPARE_SECONDS):
                    gated = await find_gated_tools(open_session, names, LISTING_SECONDS)
                self._results[key] = _ComparisonResult(
                    endpoint, _digest_of(endpoint, listing), gated, self._monotonic()
                )
                break
            except (McpError, TimeoutError) as error:
                problem = str(error) or f"the comparison took longer than {COMPARE_SECONDS:g} s"
                logger.info("%s could not be asked for tools that require client capabilities: %s", key, problem)
            except Exception:
                logger.exception("the capability comparison of %s failed unexpectedly", key)
            finally:
                first_attempt.set()
        else:
            self._results[key] = _ComparisonResult(endpoint, _digest_of(endpoint, listing), gated, self._monotonic())
        self._on_compared(key)

    def _session_opener(
        self, key: ServerKey, endpoint: Endpoint, credential: Credential | None
    ) -> Callable[[bytes], AbstractAsyncContextManager[McpSession]]:
        return lambda capabilities: self._connector.session(key, endpoint, credential, capabilities=capabilities)


def _digest_of(endpoint: Endpoint, listing: RawListing) -> str:
    """Digest of everything that a comparison depends on; a changed digest makes another comparison necessary."""
    names = sorted({name_of(tool) or "" for tool in listing.tools})
    return sha256(
        repr(endpoint).encode(), listing.protocol_version.encode(), bytes(listing.server_info), repr(names).encode()
    )


def complete_from_catalog(listing: RawListing, published_catalog: Catalog | None) -> RawListing:
    """`listing` with the announcements of the catalog that was published before a restart of the operator. If the
    server was not compared yet, the result also has that catalog's gated tools.
    """
    if published_catalog is None:
        return listing
    listing = structs.replace(listing, announced={**published_catalog.announced, **listing.announced})
    if listing.compared:
        return listing
    names = set(map(name_of, listing.tools))
    gated = [tool for tool in published_catalog.tools if tool.requires and tool.name not in names]
    requires = {tool.name: tool.requires for tool in gated}
    return structs.replace(listing, tools=(*listing.tools, *(tool.definition for tool in gated)), requires=requires)
