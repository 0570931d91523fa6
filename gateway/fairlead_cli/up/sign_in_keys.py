"""The key `l` of `fairlead up`, with which the user signs in at servers: each press opens the sign-in page of the next
server.

This module has no I/O: the constructor of `SignInKeys` takes functions for links and browser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_cli.up.board import plain_name
from fairlead_mcp.oauth.errors import GrantFailed

SIGN_IN_KEY: Final = "l"


class SignInKeys:
    """Sign-in key of one terminal. `pending` returns the servers at which the user has to sign in, in the order of the
    screen. `link` returns the URL of a server's sign-in page, and may raise GrantFailed; `open_page` opens it in a
    browser, and returns False without a browser.
    """

    def __init__(
        self,
        pending: Callable[[], Sequence[ServerKey]],
        link: Callable[[ServerKey], Awaitable[str]],
        open_page: Callable[[str], Awaitable[bool]],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the hint has changed."""
        self._pending = pending
        self._link = link
        self._open_page = open_page
        self._changed = changed
        self._opened_servers: set[ServerKey] = set()
        """Servers whose pages were opened in the current round. A round ends when the pages of all pending servers were
        opened."""
        self._last_opened: tuple[ServerKey, str, str] | None = None
        """Server whose page was opened last, the text about it, and the hint about the key if no other server is
        pending."""

    @property
    def hint(self) -> str:
        """Line about the key; empty if no sign-in is pending. Reading it removes servers that are no longer pending."""
        pending = self._pending()
        self._forget_completed(pending)
        if self._last_opened is None:
            return _prompt(pending)
        opened_server, text, key_hint = self._last_opened
        others = [key for key in pending if key != opened_server]
        return "; ".join(part for part in (text, _prompt(others) if others else key_hint) if part)

    async def press(self, key: str) -> bool:
        """Open the page of the next pending server if `key` is SIGN_IN_KEY. Returns False for other keys, and without a
        pending server."""
        pending = self._pending()
        self._forget_completed(pending)
        if key != SIGN_IN_KEY or not pending:
            return False
        if self._opened_servers.issuperset(pending):
            self._opened_servers.clear()
        await self._open(next(server for server in pending if server not in self._opened_servers))
        return True

    async def _open(self, server: ServerKey) -> None:
        self._opened_servers.add(server)
        try:
            url = await self._link(server)
        except GrantFailed as error:
            self._last_opened = server, f"{plain_name(server)}: {error}", ""
        else:
            is_opened = await self._open_page(url)
            location, key_hint = (
                ("the page in the browser", f"{SIGN_IN_KEY} opens it again") if is_opened else (url, "")
            )
            self._last_opened = server, f"{plain_name(server)}: sign in at {location}", key_hint
        self._changed()

    def _forget_completed(self, pending: Sequence[ServerKey]) -> None:
        """Remove servers that are no longer pending, so that a later sign-in at them opens a page again."""
        self._opened_servers.intersection_update(pending)
        if self._last_opened is not None and self._last_opened[0] not in pending:
            self._last_opened = None


def _prompt(pending: Sequence[ServerKey]) -> str:
    if not pending:
        return ""
    verb = "wants" if len(pending) == 1 else "want"
    return f"{', '.join(plain_name(key) for key in pending)} {verb} you to sign in: press {SIGN_IN_KEY}"
