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
        self._shown: tuple[ServerKey, str, str] | None = None
        """Server that was chosen last, what to do there, and what the key does if no other wants a sign-in."""

    @property
    def hint(self) -> str:
        """Line about these keys; empty if no server wants its user to sign in. Reading it forgets what has ended."""
        wanting = self._wanting()
        self._forget_ended(wanting)
        numbered = [
            f"{number} {plain_name(key)}"
            for number, key in enumerate(self._choices, 1)
            if key in wanting  # the others keep their numbers, as the user may be about to press one
        ]
        if numbered:
            return f"sign in at: {', '.join(numbered)}"
        if self._shown is None:
            return _wish(wanting)
        chosen, text, again = self._shown
        others = [key for key in wanting if key != chosen]
        return "; ".join(part for part in (text, _wish(others) if others else again) if part)

    async def press(self, key: str) -> bool:
        """Act on a key; False if it is not one of these keys."""
        choices, self._choices = self._choices, ()
        wanting = self._wanting()
        self._forget_ended(wanting)
        if choices and key.isdigit() and 0 < int(key) <= len(choices):
            if (chosen := choices[int(key) - 1]) in wanting:
                await self._open(chosen)
            else:
                self._changed()
            return True
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
            self._shown = server, f"{plain_name(server)}: {error}", ""
        else:
            opened = await self._opens(url)
            where, again = ("the page in the browser", f"{SIGN_IN_KEY} opens it again") if opened else (url, "")
            self._shown = server, f"{plain_name(server)}: sign in at {where}", again
        self._changed()

    def _forget_ended(self, wanting: Sequence[ServerKey]) -> None:
        """Forget the chosen server once it wants no sign-in any more: a later wish of it is for another page."""
        if self._shown is not None and self._shown[0] not in wanting:
            self._shown = None


def _wish(wanting: Sequence[ServerKey]) -> str:
    if not wanting:
        return ""
    verb = "wants" if len(wanting) == 1 else "want"
    return f"{', '.join(plain_name(key) for key in wanting)} {verb} you to sign in: press {SIGN_IN_KEY}"
