"""The page to sign in on, and the guard's word about a credential that somebody signs in with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request, Response

from fairlead_console.admission import SIGN_IN, SIGN_OUT, Access
from fairlead_console.context import ConsoleContext
from fairlead_console.paths import ROOT
from fairlead_gateway.core.identity import Identity
from fairlead_offers.problems import Problem

OFFERS: Final = "sign_in.html"


class SignInForm:
    """One per gateway."""

    def __init__(self, console: ConsoleContext, access: Access, provider: str = "") -> None:
        """`provider` is the host of the OpenID provider that is offered; empty for none."""
        self._console = console
        self._access = access
        self._provider = provider
        identities = console.rest.guard.identities
        self.admits_anonymous = not (access.here_only or identities.open) and identities.recall(None) is not None
        """Whether one may go on without saying who one is, at a gateway that knows others."""

    async def answer(
        self, request: Request, why: str = "", status: int = 200, location: str = ROOT, cookies: Sequence[str] = ()
    ) -> Response:
        """The page, which leads to `location`; `why` says what went wrong."""
        values = {
            "why": why,
            "location": location,
            "printed": self._access.here_only,
            "keys": not self._console.rest.guard.identities.open,
            "provider": self._provider,
            "anonymous": self.admits_anonymous,
        }
        return with_cookies(await self._console.answer(request, OFFERS, values, status=status), cookies)

    async def admit(self, request: Request, credential: str) -> Identity | Problem:
        """Whom the guard lets in with a credential."""
        guard = self._console.rest.guard
        headers = {b"user-agent": request.headers.get("user-agent", "").encode("latin-1")}
        address, _ = guard.client(request.scope, headers)
        return await guard.admit(f"Bearer {credential}".encode(), headers, address)


def with_cookies(answer: Response, cookies: Sequence[str]) -> Response:
    """The answer, which sets the cookies."""
    for cookie in cookies:
        answer.headers.append("set-cookie", cookie)
    return answer


def own_place(location: str) -> str:
    """The path, if it is that of a page of the console; its first page for any other, which may lead elsewhere, or in
    circles through signing in.
    """
    parts = urlsplit(location)
    good = not parts.scheme and not parts.netloc and parts.path.startswith(ROOT) and "\\" not in location
    written = parts.path.isascii() and parts.path.isprintable() and ".." not in parts.path
    return parts.path if good and written and not parts.path.startswith((SIGN_IN, SIGN_OUT)) else ROOT
