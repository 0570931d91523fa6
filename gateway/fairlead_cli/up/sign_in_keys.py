"""Key of `fairlead up` by which its user signs in at servers: `l`, once for each server that wants it.

No I/O of its own: `SignInKeys` gets the links and the browser from its maker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_cli.up.board import plain_name
from fairlead_mcp.oauth.errors import GrantFailed

SIGN_IN_KEY: Final = "l"


class SignInKeys:
    """Key of one terminal. `wanting` returns the servers at which nobody has signed in, in the order of the screen.

    `link` returns the page for a server, and may raise GrantFailed; `opens` opens it in a browser, and returns False if
    there is none.
    """

    def __init__(
        self,
        wanting: Callable[[], Sequence[ServerKey]],
        link: Callable[[ServerKey], Awaitable[str]],
        opens: Callable[[str], Awaitable[bool]],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the hint has changed."""
        self._wanting = wanting
        self._link = link
        self._opens = opens
        self._changed = changed
        self._opened: set[ServerKey] = set()
        """Servers whose pages were opened since all of those that want a sign-in had theirs."""
        self._shown: tuple[ServerKey, str, str] | None = None
        """Server whose page was opened last, what to do there, and what the key does if no other wants a sign-in."""

    @property
    def hint(self) -> str:
        """Line about the key; empty if no server wants its user to sign in. Reading it forgets what has ended."""
        wanting = self._wanting()
        self._forget_ended(wanting)
        if self._shown is None:
            return _wish(wanting)
        shown, text, again = self._shown
        others = [key for key in wanting if key != shown]
        return "; ".join(part for part in (text, _wish(others) if others else again) if part)

    async def press(self, key: str) -> bool:
        """Act on a key; False if it is not the key. It opens the page of the next server that wants a sign-in."""
        wanting = self._wanting()
        self._forget_ended(wanting)
        if key != SIGN_IN_KEY or not wanting:
            return False
        if self._opened.issuperset(wanting):
            self._opened.clear()
        await self._open(next(server for server in wanting if server not in self._opened))
        return True

    async def _open(self, server: ServerKey) -> None:
        self._opened.add(server)
        try:
            url = await self._link(server)
        except GrantFailed as error:
            self._shown = server, f"{plain_name(server)}: {error}", ""
        else:
            opened = await self._opens(url)
            where, again = ("the page in the browser", f"{SIGN_IN_KEY} opens it again") if opened else (url, "")
            self._shown = server, f"{plain_name(server)}: sign in at {where}", again
        self._changed()

    def _forget_ended(self, wanting: Sequence[ServerKey]) -> None:
        """Forget servers that want no sign-in any more: a later wish of theirs is for another page."""
        self._opened.intersection_update(wanting)
        if self._shown is not None and self._shown[0] not in wanting:
            self._shown = None


def _wish(wanting: Sequence[ServerKey]) -> str:
    if not wanting:
        return ""
    verb = "wants" if len(wanting) == 1 else "want"
    return f"{', '.join(plain_name(key) for key in wanting)} {verb} you to sign in: press {SIGN_IN_KEY}"
