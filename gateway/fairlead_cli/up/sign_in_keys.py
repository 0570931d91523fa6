"""Keys of `fairlead up` by which its user signs in at servers: `l`, and a digit if several servers want it.

No I/O of its own: `SignInKeys` gets the links and the browser from its maker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_cli.up.board import plain_name
from fairlead_mcp.oauth.errors import GrantFailed

SIGN_IN_KEY: Final = "l"
MAX_CHOICES: Final = 9
"""Servers that can be chosen by one digit."""


class SignInKeys:
    """Keys of one terminal. `wanting` returns the servers at which nobody has signed in, in the order of the screen.

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
        self._choices: tuple[ServerKey, ...] = ()
        """Servers of which the next key chooses one."""
        self._shown: tuple[ServerKey, str] | None = None
        """Server that was chosen last, with what to do there."""

    @property
    def hint(self) -> str:
        """Line about these keys; empty if no server wants its user to sign in."""
        wanting = self._wanting()
        if self._choices:
            numbered = (f"{number} {plain_name(key)}" for number, key in enumerate(self._choices, 1))
            return f"sign in at: {', '.join(numbered)}"
        if self._shown is not None and self._shown[0] in wanting:
            return self._shown[1]
        if not wanting:
            return ""
        names = [plain_name(key) for key in wanting]
        verb = "wants" if len(names) == 1 else "want"
        return f"{', '.join(names)} {verb} you to sign in: press {SIGN_IN_KEY}"

    async def press(self, key: str) -> bool:
        """Act on a key; False if it is not one of these keys."""
        choices, self._choices = self._choices, ()
        if choices and key.isdigit() and 0 < int(key) <= len(choices):
            await self._open(choices[int(key) - 1])
            return True
        wanting = self._wanting()
        if key != SIGN_IN_KEY or not wanting:
            if choices:
                self._changed()
            return False
        if len(wanting) == 1:
            await self._open(wanting[0])
        else:
            self._choices = tuple(wanting[:MAX_CHOICES])
            self._changed()
        return True

    async def _open(self, server: ServerKey) -> None:
        try:
            url = await self._link(server)
        except GrantFailed as error:
            self._shown = server, f"{plain_name(server)}: {error}"
        else:
            opened = await self._opens(url)
            where = f"the page in the browser; {SIGN_IN_KEY} opens it again" if opened else url
            self._shown = server, f"{plain_name(server)}: sign in at {where}"
        self._changed()
