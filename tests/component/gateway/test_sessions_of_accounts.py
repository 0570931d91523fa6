"""Legacy sessions with a server, and their streams, end with the account with which they were opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from askers import session_of
from consentservers import ConsentServer, FormBrowser, consent_server
from consentworld import SERVER, consent_catalog, laptop, link_of, sign_in_as, whoami
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import LOCAL, Identity
from fairlead_gateway.upstream.session_pool import IDLE_SECONDS
from fairlead_mcp.oauth.stored_grant import GrantKey
from fixed_authenticator import Names
from gatewayworld import LEGACY, Ask, calling
from ports import free_port
from waiting import eventually

ASKING: dict[str, Any] = {"elicitation": {}}
"""Capabilities of a client that gets a session of its own at the server."""


class World(NamedTuple):
    """A legacy server at which a laptop's owner signs in."""

    server: ConsentServer
    gateway: Gateway
    browser: FormBrowser

    def has_ended(self, account: str) -> bool:
        """Whether a session was ended with the account that opened it."""
        ended = [session for verb, session, by in self.server.in_sessions if (verb, by) == ("DELETE", account)]
        return bool(ended) and not self.gateway.registry.upstream(SERVER).has_sessions_of(LOCAL.person)


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    async with (
        consent_server("linear") as server,
        laptop(folder, consent_catalog(server.url, version=LEGACY)) as gateway,
        FormBrowser() as browser,
    ):
        await browser.sign_in(await link_of(gateway))
        yield World(server, gateway, browser)


async def in_session(gateway: Gateway) -> Ask:
    """Call a tool as a client with a session and a stream of its own at the server."""
    return calling("linear__whoami", era=LEGACY, session=await session_of(gateway, ASKING))


async def test_no_session_of_one_account_is_used_by_another_of_the_same_person(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        call = await in_session(here.gateway)
        assert [await whoami(here.gateway, each) for each in (call, calling("linear__whoami"))] == ["alice"] * 2
        await eventually(lambda: ("GET", "alice") in {(verb, by) for verb, _, by in here.server.in_sessions})
        here.server.provider.person = "bob"
        await here.browser.sign_in(await link_of(here.gateway))
        await eventually(lambda: here.has_ended("alice"))
        assert [await whoami(here.gateway, each) for each in (call, calling("linear__whoami"))] == ["bob"] * 2
        accounts = here.server.accounts_of_sessions()
    assert sorted(accounts.values(), key=sorted) == [{"alice"}, {"alice"}, {"bob"}, {"bob"}]


async def test_a_logout_ends_the_sessions_and_streams_of_its_account(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert await whoami(here.gateway, await in_session(here.gateway)) == "alice"
        assert here.gateway.grants is not None
        await here.gateway.grants.delete(GrantKey(LOCAL.person, str(SERVER)))
        await eventually(lambda: here.has_ended("alice"))


async def test_a_session_ends_with_its_account_also_where_its_token_has_expired(tmp_path: Path) -> None:
    async with consent_server("linear") as server, FormBrowser() as browser:
        server.provider.token_seconds = 2
        async with laptop(tmp_path, consent_catalog(server.url, version=LEGACY)) as gateway:
            await browser.sign_in(await link_of(gateway))
            assert await whoami(gateway) == "alice"
            upstream = gateway.registry.upstream(SERVER)
            await eventually(lambda: not gateway.sign_ins.has_token(LOCAL, SERVER))
            assert upstream.has_sessions_of(LOCAL.person)
            assert gateway.grants is not None
            await gateway.grants.delete(GrantKey(LOCAL.person, str(SERVER)))
            await eventually(lambda: not upstream.has_sessions_of(LOCAL.person), seconds=IDLE_SECONDS / 4)


async def test_sessions_of_other_persons_stay(tmp_path: Path) -> None:
    port, people = free_port(), ("alice", "bob")
    trust = Trust((Names(*people),))
    async with consent_server("linear") as server:
        linear = consent_catalog(server.url, version=LEGACY)
        more = {"public_url": f"http://127.0.0.1:{port}", "session_key": "key", "trust": trust}
        async with laptop(tmp_path, linear, port=port, **more) as gateway:
            identities = {}
            for name in people:
                server.provider.person = name
                identities[name] = Identity(kind="apiKey", principal=f"name:{name}", agent=name)
                async with FormBrowser() as browser:
                    await sign_in_as(browser, await link_of(gateway, identities[name]), name)
                call = calling("linear__whoami").with_headers(authorization=f"Bearer {name}")
                assert await whoami(gateway, call) == name
            upstream = gateway.registry.upstream(SERVER)
            assert gateway.grants is not None
            await gateway.grants.delete(GrantKey(identities["alice"].person, str(SERVER)))
            await eventually(lambda: not upstream.has_sessions_of(identities["alice"].person))
            assert upstream.has_sessions_of(identities["bob"].person)
            call = calling("linear__whoami").with_headers(authorization="Bearer bob")
            assert await whoami(gateway, call) == "bob"
    assert next(by for verb, _, by in server.in_sessions if verb == "DELETE") == "alice"
