"""A gateway whose server wants each user to sign in, and a fake of the sign-ins: no browser, no OAuth.

async with asked_sign_ins(tmp_path) as world:
    world.sign_ins.sign_in(person)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead_api.meta import ServerKey
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.outbound import CallCredential, CallCredentials
from fairlead_gateway.core.sign_in import SignInLinks, SignInWait
from fairlead_mcp.errors import McpError
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed
from fairlead_mcp.waiting import wait_until_set
from gatewayworld import LEGACY, MODERN, catalog, limits, publish, running, wait_for_snapshots
from rawserver import RawServer, Reply, Request, raw_server

TIMEOUT_MS: Final = 20_000
LOCAL: Final = b"local"


class FakeSignIns(CallCredentials, SignInLinks, SignInWait):
    """Fake credentials of a server at which users sign in. Each user has one link until the sign-in is finished."""

    def __init__(self) -> None:
        self.waiting: Counter[bytes] = Counter()
        """Number of waiting calls, by user."""
        self.nobody = False
        """Whether callers are not users."""
        self._signed_in: set[bytes] = set()
        self._changed: dict[bytes, asyncio.Event] = {}
        self._links: dict[bytes, str] = {}

    def sign_in(self, person: bytes = LOCAL) -> None:
        self._signed_in.add(person)
        self.end(person)

    def end(self, person: bytes = LOCAL) -> None:
        """End the user's sign-in, with or without success."""
        self._links.pop(person, None)
        self._changed.setdefault(person, asyncio.Event()).set()
        self._changed.pop(person)

    def sign_out(self, person: bytes = LOCAL) -> None:
        self._signed_in.discard(person)

    # SignInLinks, SignInWait

    async def link(self, identity: Identity, server: ServerKey, challenge: Challenge | None) -> str:
        if self.nobody:
            raise GrantFailed("a workload has no browser: have a person call", cause=SIGN_IN_REQUIRED)
        number = len(self._links) + 1
        return self._links.setdefault(self.person(identity), f"https://gateway.example/sign-in/{server.name}/{number}")

    async def wait(self, identity: Identity, server: ServerKey, seconds: float) -> bool:
        person = self.person(identity)
        if person not in self._links:
            return True
        self.waiting[person] += 1
        try:
            return await wait_until_set(self._changed.setdefault(person, asyncio.Event()), seconds)
        finally:
            self.waiting[person] -= 1

    # CallCredentials

    def person(self, identity: Identity) -> bytes:
        return identity.person or LOCAL

    def result_scope(self, identity: Identity) -> bytes | None:
        return self.person(identity)

    def find_cached(self, identity: Identity) -> CallCredential | None:
        person = self.person(identity)
        return self._credential(person) if person in self._signed_in else None

    async def acquire(
        self,
        identity: Identity,
        deadline: float,
        refused: CallCredential | None = None,
        challenge: Challenge | None = None,
    ) -> CallCredential:
        person = self.person(identity)
        if person in self._signed_in:
            return self._credential(person)
        link = await self.link(identity, ServerKey("default", "demo"), challenge)
        raise GrantFailed("you have not signed in at default/demo: sign in", cause=SIGN_IN_REQUIRED, sign_in_url=link)

    def newest_line(self, person: bytes) -> bytes:
        return b""

    async def valid_line(self, person: bytes, deadline: float, refused: bytes = b"") -> bytes:
        return self._credential(person).line

    def note(self, identity: Identity) -> None:
        """No-op: nothing is stored."""

    def refusal_error(self, identity: Identity, challenge: Challenge) -> McpError:
        raise AssertionError("the server of this world refuses nobody")

    def _credential(self, person: bytes) -> CallCredential:
        return CallCredential(person, AccessToken.bearer(f"of-{person.decode()[-8:]}", float("inf"), frozenset()))


async def answer_with_token(request: Request, reply: Reply) -> None:
    """Answer like a server of either revision whose tool returns the token of the call."""
    if request.verb == "GET":
        return reply.send(405)
    if request.method == "initialize":
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        return reply.result(request, hello, mcp_session_id="s")
    if request.method in ("tools/call", "prompts/get"):
        text = request.headers.get("authorization", "no token")
        content = {"content": [{"type": "text", "text": text}], "messages": []}
        return reply.result(request, {**content, "resultType": "complete"})
    return reply.send(202)


@dataclass
class AskedSignIns:
    """A gateway with the server `demo`."""

    gateway: Gateway
    server: RawServer
    sign_ins: FakeSignIns

    @property
    def calls(self) -> int:
        """Calls that the server has received."""
        return self.server.methods().count("tools/call")


@contextlib.asynccontextmanager
async def asked_sign_ins(
    folder: Path,
    *,
    version: str = MODERN,
    timeout_ms: int = TIMEOUT_MS,
    max_timeout_ms: int | None = None,
    **settings: Any,
) -> AsyncIterator[AskedSignIns]:
    """A gateway with a server that requires users to sign in."""
    sign_ins = FakeSignIns()
    bounds = limits(timeout_ms=timeout_ms, **({} if max_timeout_ms is None else {"max_timeout_ms": max_timeout_ms}))
    async with raw_server(answer_with_token) as server:

        def document(*tools: str) -> Any:
            return catalog("demo", server.url, tools, version=version, limits=bounds)

        async with running(folder, document("whoami"), **settings) as gateway:
            # replaces the credentials of `auth.userConsent` from the next snapshot on
            gateway.registry.credentials = lambda key: sign_ins  # type: ignore[method-assign, assignment, return-value]
            gateway.endpoint.context.sign_in_questions.waits = sign_ins
            swaps = gateway.snapshots.swaps
            publish(folder / "documents", document("whoami", "other"))
            await wait_for_snapshots(gateway, swaps + 1)
            yield AskedSignIns(gateway, server, sign_ins)
