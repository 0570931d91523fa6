"""Page with the forms for signing in, and the check of the credential that a visitor enters."""

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

TEMPLATE: Final = "sign_in.html"


class SignInForm:
    """Sign-in page. Each gateway has one instance."""

    def __init__(self, console: ConsoleContext, access: Access, provider: str = "") -> None:
        """`provider` is the host of the OpenID provider; empty if no provider is configured."""
        self._console = console
        self._access = access
        self._provider = provider
        identities = console.rest.guard.identities
        self.admits_anonymous = not (access.local_only or identities.open) and identities.recall(None) is not None
        """Whether visitors may continue without a credential, at a gateway that also authenticates clients."""

    async def answer(
        self, request: Request, why: str = "", status: int = 200, location: str = ROOT, cookies: Sequence[str] = ()
    ) -> Response:
        """Make the page, from which a sign-in leads to `location`; `why` is an error message."""
        values = {
            "why": why,
            "location": location,
            "printed": self._access.local_only,
            "keys": not self._console.rest.guard.identities.open,
            "provider": self._provider,
            "anonymous": self.admits_anonymous,
        }
        return with_cookies(await self._console.answer(request, TEMPLATE, values, status=status), cookies)

    async def admit(self, request: Request, credential: str) -> Identity | Problem:
        """Check a credential. Returns its identity, or the reason to reject it."""
        guard = self._console.rest.guard
        headers = {b"user-agent": request.headers.get("user-agent", "").encode("latin-1")}
        address, _ = guard.client(request.scope, headers)
        return await guard.admit(f"Bearer {credential}".encode(), headers, address, ROOT)


def with_cookies(answer: Response, cookies: Sequence[str]) -> Response:
    """Add `Set-Cookie` headers to a response."""
    for cookie in cookies:
        answer.headers.append("set-cookie", cookie)
    return answer


def safe_return_path(location: str) -> str:
    """Return the path of a page of the console; for other locations, return the path of the first page. This prevents
    open redirects and loops.
    """
    parts = urlsplit(location)
    is_own = not parts.scheme and not parts.netloc and parts.path.startswith(ROOT) and "\\" not in location
    is_plain = parts.path.isascii() and parts.path.isprintable() and ".." not in parts.path
    return parts.path if is_own and is_plain and not parts.path.startswith((SIGN_IN, SIGN_OUT)) else ROOT
