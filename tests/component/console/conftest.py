"""The browser that these tests share, because it and its driver take longer to start than most tests run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from consoleworld import browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """One browser per pytest worker, for tests on the session's event loop. Tests use it through `emptied`."""
    async with browser() as started:
        yield started
