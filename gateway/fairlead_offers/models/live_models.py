"""Context windows from a model server: requests an OpenAI-compatible `GET /v1/models` at intervals.

This module is imported only if a model server is configured, because the HTTP client takes long to load. If the model
server cannot be reached or its list of models is unreadable, the last list remains in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from fairlead_formats.tokens.models import ContextWindow, LiveModels, LiveSource, from_models_answer
from fairlead_mcp.bounded_reading import UnreadableAnswer, decode_bounded
from fairlead_mcp.http.connect_errors import connect_error

TIMEOUT: Final = 10.0
"""Maximum seconds for one request, including the connection."""
MAX_ANSWER: Final = 4 << 20
"""Maximum number of bytes of an answer."""
MAX_MODELS: Final = 10_000

log = logging.getLogger(__name__)


class NoModels(Exception):
    """Failure to read the list of models. The message says why, without the address."""


class Refresher:
    """Refreshes a list of models at intervals, between `start` and `stop`."""

    def __init__(self, source: LiveSource, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._source = source
        self._now = now
        self._task: asyncio.Task[None] | None = None
        self.models = LiveModels()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="live models")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)  # `fetch_windows` limits each attempt
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self._refresh(session)
                await asyncio.sleep(self._source.refresh_seconds)

    async def _refresh(self, session: aiohttp.ClientSession) -> None:
        try:
            models = await fetch_windows(session, self._source)
        except NoModels as error:
            if self.models.error != str(error):
                log.warning("The context windows from %s were not updated: %s", self._source.url, error)
            self.models = msgspec.structs.replace(self.models, error=str(error))
            return
        read_at = self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
        if not self.models.models or self.models.error:
            log.info("Read the context windows of %d models from %s", len(models), self._source.url)
        self.models = LiveModels(models, read_at)


async def fetch_windows(session: aiohttp.ClientSession, source: LiveSource) -> dict[str, ContextWindow]:
    """Request the context windows by model. Raises NoModels."""
    try:
        # not aiohttp's `total` timeout, which loses a cancellation that arrives at the same time
        async with (
            asyncio.timeout(TIMEOUT),
            session.get(source.url, headers=await _headers(source), allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise NoModels(f"the model server answered with status {answer.status}")
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > MAX_ANSWER:
                    raise NoModels(f"the list of models is larger than {MAX_ANSWER} bytes")
    except TimeoutError as error:
        raise NoModels(f"the model server did not answer within {TIMEOUT:g} s") from error
    except aiohttp.ClientConnectorError as error:
        unresolved = isinstance(error, aiohttp.ClientConnectorDNSError)
        failure = connect_error(
            error.os_error, "the model server", tls=source.url.lower().startswith("https:"), from_resolver=unresolved
        )
        raise NoModels(str(failure)) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NoModels(f"the connection to the model server broke: {type(error).__name__}") from error
    try:
        models = from_models_answer(await decode_bounded(bytes(body), Any))
    except UnreadableAnswer as error:
        raise NoModels(f"the list of models cannot be read: {error}") from error
    if not models:
        raise NoModels("the list of models has no context windows")
    return dict(list(models.items())[:MAX_MODELS])


async def _headers(source: LiveSource) -> dict[str, str]:
    """Headers with the token, whose file is read for every request, because it may be rotated. Raises NoModels."""
    if source.token_file is None:
        return {}
    try:
        token = await asyncio.to_thread(Path(source.token_file).read_text, "ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise NoModels("the token file cannot be read") from error
    return {"Authorization": f"Bearer {token.strip()}"}
