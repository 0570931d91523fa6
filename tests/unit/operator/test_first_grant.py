"""Servers that list only for signed-in users, in virtual time: the tool `sign_in`, and listings that gateways
report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Credential, EventsEndpoint, HttpEndpoint
from fairlead_api.documents.codec import SERVERS_NAME, catalog_name, decode
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_api.documents.servers import Servers
from fairlead_api.meta import ServerKey
from fairlead_api.reports import GrantedListing
from fairlead_api.v1alpha1.causes import cause_of
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_mcp import methods
from fairlead_mcp.errors import HttpRefused
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.clocks import Clocks
from fairlead_operator.compose import InstallationOptions, compose
from fairlead_operator.controller import Controller, PlatformAdapters
from fairlead_operator.discovery.state import DiscoveryOptions
from fairlead_operator.ports import OperatorCredential, ResolvedCredential
from fairlead_operator.reconciler import ReconcilerOptions
from operatorfakes import (
    NO_CREDENTIAL,
    NOW,
    URL,
    MemoryDeclarations,
    MemoryDocuments,
    MemoryPlatform,
    Script,
    ScriptedConnector,
    mcp_server,
    tool_named,
)
from virtualtime import in_virtual_time

pytestmark = in_virtual_time

KEY = ServerKey("team", "demo")
CONSENT: dict[str, Any] = {"auth": {"userConsent": {}}, "discovery": {"auth": {"firstGrant": True}}}
BEARER = b'Bearer resource_metadata="http://demo.example/.well-known/oauth-protected-resource"'


def http_refusal(status: int = 401, challenge: bytes | None = BEARER) -> HttpRefused:
    return HttpRefused("the server requires credentials", status=status, challenge=challenge)


def consent_credential() -> ResolvedCredential:
    oauth = OAuthSettings(grant=USER_CONSENT, first_grant=True, listing_interval_s=600.0)
    return ResolvedCredential(NO_CREDENTIAL.verdict, oauth=oauth, own_credential=OperatorCredential())


def listing(*tools: Any, **members: Any) -> RawListing:
    definitions = [tool_named(tool) if isinstance(tool, str) else tool for tool in tools]
    raw = tuple(Raw(msgspec.json.encode(definition)) for definition in definitions)
    return RawListing("2026-07-28", server_info=Raw(b'{"name":"scripted","version":"1"}'), tools=raw, **members)


@dataclass
class Bench:
    """One server, `team/demo`, that refuses the operator, and operators that tests run with it."""

    platform: MemoryPlatform = field(default_factory=lambda: MemoryPlatform(resolved=consent_credential()))
    documents: MemoryDocuments = field(default_factory=MemoryDocuments)
    script: Script = field(default_factory=lambda: Script(error=http_refusal()))
    controller: Controller | None = None

    def declare(self, **spec: Any) -> None:
        before = self.platform.servers.get(KEY)
        server = mcp_server(**{**CONSENT, **spec})
        self.platform.declare(server if before is None else server.model_copy(update={"status": before.status}))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        clocks = Clocks(now=lambda: NOW + timedelta(seconds=loop.time()), monotonic=loop.time)
        adapters = PlatformAdapters(
            self.platform, self.documents, ScriptedConnector({KEY: self.script}), MemoryDeclarations()
        )
        pace = DiscoveryOptions(floor=30, jitter=0)
        self.controller = compose(
            adapters, InstallationOptions(reconciler=ReconcilerOptions(discovery=pace), clocks=clocks)
        )
        task = asyncio.create_task(self.controller.run())
        await asyncio.sleep(0.5)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def refuse(self, why: str) -> None:
        """Report, as a gateway does, why it does not send the lists that it read."""
        at = NOW.timestamp() + asyncio.get_running_loop().time()
        granted = GrantedListing(KEY.namespace, KEY.name, "uid-of-demo", URL, at, Raw(b"null"), why)
        assert self.controller is not None
        self.controller.reconciler.take_listings([granted])
        await asyncio.sleep(0.5)

    async def hand_over(self, raw: RawListing, *, ago: float = 0.0, uid: str = "uid-of-demo", url: str = URL) -> None:
        """Report a listing as a gateway does, `ago` seconds after it was read."""
        at = NOW.timestamp() + asyncio.get_running_loop().time() - ago
        granted = GrantedListing(KEY.namespace, KEY.name, uid, url, at, Raw(msgspec.json.encode(raw)))
        assert self.controller is not None
        self.controller.reconciler.take_listings([granted])
        await asyncio.sleep(0.5)

    def verified_condition(self) -> tuple[str, str, str]:
        condition = self.platform.servers[KEY].status.condition(ConditionType.VERIFIED)
        assert condition is not None
        return condition.status, str(cause_of(condition)[0]), condition.message

    async def catalog(self) -> Catalog | None:
        data = await self.documents.read(catalog_name(KEY))
        document = decode(data) if data else None
        assert document is None or isinstance(document, Catalog)
        return document

    async def entries(self) -> Servers:
        data = await self.documents.read(SERVERS_NAME)
        assert data is not None
        document = decode(data)
        assert isinstance(document, Servers)
        return document

    async def tools(self) -> list[str]:
        catalog = await self.catalog()
        assert catalog is not None
        return [tool.name for tool in catalog.tools]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_lists_to_people_only_has_one_tool_to_sign_in(status: int) -> None:
    bench = Bench(script=Script(error=http_refusal(status, None)))
    bench.declare(tools=[{"name": "other"}], discovery={"auth": {"firstGrant": True}, "tools": "Named"}, pin=True)
    async with bench.running():
        catalog = await bench.catalog()
        shown = bench.platform.servers[KEY].status

    assert bench.verified_condition()[:2] == ("False", "SignInRequired")
    assert "fairlead login team/demo" in bench.verified_condition()[2]
    assert shown.tools == 0
    assert catalog is not None
    assert (catalog.sign_in, catalog.online, catalog.prefix) == (True, True, "demo")
    assert [(tool.name, tool.enabled) for tool in catalog.tools] == [("sign_in", True)]
    assert catalog.oauth == consent_credential().oauth
    assert [name for name in bench.documents.blobs if "pins" in name] == []
    assert "CatalogPublished" not in [announcement.reason for announcement in bench.platform.announced]


async def test_a_granted_listing_is_checked_and_published_like_one_of_the_operator() -> None:
    bench = Bench()
    bench.declare(tools=[{"name": "a", "tags": ["mine"]}])
    async with bench.running():
        await bench.hand_over(listing("a", "b", {"name": "bad"}))
        catalog = await bench.catalog()

    assert bench.verified_condition()[:2] == ("True", "InvalidSchemas")
    assert "; listed with the grant of a user who signed in" in bench.verified_condition()[2]
    assert catalog is not None
    assert (catalog.sign_in, catalog.online) == (False, True)
    assert [(tool.name, tool.tags) for tool in catalog.tools] == [("a", ("mine",)), ("b", ())]


async def test_only_tools_are_published_of_what_a_person_can_see() -> None:
    personal = Raw(b'{"name":"tax return of Alice","uri":"file:///alice/tax","uriTemplate":"file:///alice/{name}"}')
    capabilities = {
        "tools": {"listChanged": True},
        "logging": {},
        "resources": {"subscribe": True},
        "prompts": {},
        "completions": {},
        "experimental": {"alice": {}},
        "extensions": {methods.SKILLS: {}, methods.TASKS: {"list": {}}, "com.example/alice": {}},
    }
    raw = listing(
        "a",
        instructions="Alice's files are here.",
        capabilities=Raw(msgspec.json.encode(capabilities)),
        resources=(personal,),
        resource_templates=(personal,),
        prompts=(personal,),
        skills=(personal,),
    )
    bench = Bench()
    bench.declare()
    async with bench.running():
        await bench.hand_over(raw)
        catalog = await bench.catalog()

    assert catalog is not None
    assert [tool.name for tool in catalog.tools] == ["a"]
    assert (catalog.resources, catalog.resource_templates, catalog.prompts, catalog.skills) == ((), (), (), ())
    assert catalog.instructions is None
    assert msgspec.json.decode(catalog.capabilities) == {
        "tools": {"listChanged": True},
        "logging": {},
        "extensions": {methods.TASKS: {"list": {}}},
    }


EVERY_KIND = {
    "resources": "resources",
    "resourceTemplates": "resource_templates",
    "prompts": "prompts",
    "skills": "skills",
    "instructions": "instructions",
}


@pytest.mark.parametrize(
    ("shared", "capabilities"),
    [
        ("resources", {"resources": {"subscribe": True}}),
        ("resourceTemplates", {"resources": {"subscribe": True}, "completions": {}}),
        ("prompts", {"prompts": {}, "completions": {}}),
        ("skills", {"extensions": {methods.SKILLS: {}, methods.TASKS: {}}}),
        ("instructions", {}),
    ],
)
async def test_of_what_a_person_can_see_the_tools_and_what_the_spec_names_are_published(
    shared: str, capabilities: dict[str, Any]
) -> None:
    personal = Raw(
        b'{"name":"a","uri":"file:///a","uriTemplate":"file:///{a}","frontmatter":{"name":"a"},"resources":[]}'
    )
    declared = {
        "tools": {},
        "resources": {"subscribe": True},
        "prompts": {},
        "completions": {},
        "extensions": {methods.SKILLS: {}, methods.TASKS: {}},
    }
    lists = {member: (personal,) for member in EVERY_KIND.values() if member != "instructions"}
    raw = listing("a", instructions="Ask.", capabilities=Raw(msgspec.json.encode(declared)), **lists)
    first = {"auth": {"firstGrant": True}}
    bench = Bench()
    bench.declare(discovery={**first, "shared": [shared]})
    async with bench.running():
        await bench.hand_over(raw)
        catalog = await bench.catalog()
        assert catalog is not None
        published = {kind for kind, member in EVERY_KIND.items() if getattr(catalog, member)}
        assert published == {shared}
        expected = {"tools": {}, "extensions": {methods.TASKS: {}}, **capabilities}
        assert msgspec.json.decode(catalog.capabilities) == expected

        bench.declare(discovery=first)
        assert bench.controller is not None
        bench.controller.reconciler.refresh(KEY)
        await asyncio.sleep(1)
        catalog = await bench.catalog()
        assert catalog is not None
        assert [kind for kind, member in EVERY_KIND.items() if getattr(catalog, member)] == []


async def test_the_first_granted_listing_of_a_pinned_server_is_approved_and_changes_are_held_back() -> None:
    bench = Bench()
    bench.declare(pin=True)
    async with bench.running():
        await bench.hand_over(listing("a"))
        assert await bench.tools() == ["a"]
        await bench.hand_over(listing("a", "b"))
        catalog = await bench.catalog()

    assert catalog is not None
    assert (await bench.tools(), catalog.held) == (["a"], 1)


@pytest.mark.parametrize(
    ("raw", "members"),
    [
        (listing("b"), {"ago": 10.0}),
        (listing("b"), {"uid": "another"}),
        (listing("b"), {"url": "http://other.example/mcp"}),
        (listing("b", endpoint=HttpEndpoint(url="http://other.example/mcp")), {}),
        (listing("b", endpoint=EventsEndpoint(url=URL)), {}),
    ],
    ids=["older", "of another uid", "of another url", "from another place", "over HTTP+SSE"],
)
async def test_a_listing_of_something_else_is_not_published(raw: RawListing, members: dict[str, Any]) -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await asyncio.sleep(30)
        await bench.hand_over(listing("a"))
        await bench.hand_over(raw, **members)
        assert await bench.tools() == ["a"]


async def test_a_server_that_only_has_event_streams_is_told_by_its_first_listing() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await bench.hand_over(listing("b", endpoint=EventsEndpoint(url=URL)))
        assert bench.verified_condition()[:2] == ("False", "UnsupportedVersion")
        assert "often with /mcp in place of /sse" in bench.verified_condition()[2]
        await asyncio.sleep(601)
        assert bench.verified_condition()[:2] == ("False", "UnsupportedVersion")
        await bench.hand_over(listing("a"))
        assert bench.verified_condition()[:2] == ("True", "Verified")


async def test_the_last_listing_stays_and_says_its_age_while_no_grant_renews_it() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await bench.hand_over(listing("a"))
        writes, reports = bench.documents.writes, len(bench.platform.reported)
        for _ in range(3):
            await asyncio.sleep(600)
            await bench.hand_over(listing("a"))
        assert (bench.documents.writes, len(bench.platform.reported)) == (writes + 3, reports), "the time of each list"
        await asyncio.sleep(3600)
        assert await bench.tools() == ["a"]

    assert bench.verified_condition()[:2] == ("True", "Verified")
    assert "for the last time on 2026-11-20 12:30 UTC" in bench.verified_condition()[2]


async def test_the_server_is_asked_without_a_token_once_per_interval() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await asyncio.sleep(3599)
    assert bench.script.connections == 6


async def test_a_restart_keeps_the_published_tools_and_applies_a_changed_spec() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await bench.hand_over(listing("a", instructions="Ask."))
        before = await bench.catalog()
    bench.platform.resolved = consent_credential()
    bench.declare(prefix="other", generation=2)
    async with bench.running():
        after = await bench.catalog()

    assert before is not None
    assert after is not None
    assert (after.prefix, after.generation, after.hash, after.server_info) == (
        "other",
        2,
        before.hash,
        before.server_info,
    )
    assert bench.verified_condition()[0] == "True"
    assert "before this operator started" in bench.verified_condition()[2]


async def test_a_restart_with_another_url_does_not_show_the_tools_of_the_earlier_one() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await bench.hand_over(listing("a"))
    moved = HttpEndpoint(url="http://moved.example/mcp")
    bench.platform.workload = replace(bench.platform.workload, endpoint=moved)
    async with bench.running():
        assert await bench.tools() == ["sign_in"]


async def test_a_listing_that_arrives_before_the_first_reconcile_is_published() -> None:
    bench = Bench()
    bench.declare()
    bench.script.hang = True
    async with bench.running():
        await bench.hand_over(listing("a"))
        assert await bench.tools() == ["a"]


async def test_a_server_that_lists_to_everybody_again_is_listed_by_the_operator() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await bench.hand_over(listing("a"))
        bench.script.error, bench.script.tools = None, [tool_named("open")]
        await asyncio.sleep(1801)
        assert await bench.tools() == ["open"]
    assert bench.verified_condition() == ("True", "Verified", "the server answered tools/list")


async def test_a_server_that_lists_less_to_everybody_keeps_the_list_of_a_person_while_it_is_renewed() -> None:
    bench = Bench(script=Script(tools=[tool_named("open")]))
    bench.declare()
    async with bench.running():
        assert await bench.tools() == ["open"]
        await bench.hand_over(listing("mine", "open"))
        writes = bench.documents.writes
        for _ in range(4):
            await asyncio.sleep(600)
            assert await bench.tools() == ["mine", "open"]
            await bench.hand_over(listing("mine", "open"))
        assert bench.documents.writes == writes + 4, "the time of each list"
        assert "; listed with the grant of a user who signed in" in bench.verified_condition()[2]
        await asyncio.sleep(1801)
        assert await bench.tools() == ["open"], "its grants do not work any more"


async def test_a_refresh_says_that_nobody_has_signed_in() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        assert bench.controller is not None
        bench.controller.reconciler.refresh(KEY)
        await asyncio.sleep(1)
        catalog = await bench.catalog()
    assert catalog is not None
    assert catalog.refreshed is not None
    assert "it has accepted nobody yet" in catalog.refreshed.failure


def laptop(script: Script, headers: dict[str, str] | None = None, url: str = "https://demo.example/mcp") -> Bench:
    resolved = ResolvedCredential(NO_CREDENTIAL.verdict, value=Credential(headers=headers) if headers else None)
    bench = Bench(platform=MemoryPlatform(environment="local", resolved=resolved), script=script)
    bench.platform.declare(mcp_server(url=url))
    return bench


async def test_a_laptop_needs_no_configuration_for_a_server_that_challenges() -> None:
    bench = laptop(Script(error=http_refusal()), {"X-Client": "me"})
    async with bench.running():
        first = await bench.catalog()
        await bench.hand_over(listing("a"))
        second = await bench.catalog()

    settings = OAuthSettings(
        grant=USER_CONSENT, client_authentication="none", first_grant=True, listing_interval_s=600.0
    )
    assert first is not None
    assert (first.sign_in, first.oauth) == (True, settings)
    assert second is not None
    assert (second.sign_in, second.oauth, await bench.tools()) == (False, settings, ["a"])
    assert bench.verified_condition()[:2] == ("True", "Verified")


async def test_a_server_that_got_a_credential_does_not_ask_for_a_sign_in_any_more() -> None:
    bench = laptop(Script(error=http_refusal()))
    async with bench.running():
        assert await bench.tools() == ["sign_in"]
    credential = Credential(headers={"Authorization": "Bearer wr0ng"})
    bench.platform.resolved = ResolvedCredential(NO_CREDENTIAL.verdict, value=credential)
    async with bench.running():
        assert await bench.catalog() is None
    assert bench.verified_condition()[:2] == ("False", "Unauthorized")


async def test_a_server_that_refuses_without_a_challenge_may_have_metadata() -> None:
    bench = laptop(Script(error=http_refusal(challenge=None), has_metadata=True))
    async with bench.running():
        assert await bench.tools() == ["sign_in"]


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (http_refusal(challenge=None), {}),
        (http_refusal(challenge=b'Basic realm="tools"'), {}),
        (http_refusal(403), {}),
        (http_refusal(), {"authorization": "Bearer t0p"}),
    ],
    ids=["without a challenge", "Basic", "forbidden", "with a credential"],
)
async def test_any_other_refusal_is_one_of_a_credential(error: HttpRefused, headers: dict[str, str]) -> None:
    bench = laptop(Script(error=error), headers)
    async with bench.running():
        assert await bench.catalog() is None
    assert bench.verified_condition()[:2] == ("False", "Forbidden" if error.status == 403 else "Unauthorized")


async def test_a_server_that_would_get_tokens_unencrypted_is_not_signed_in_to_by_itself() -> None:
    bench = laptop(Script(error=http_refusal()), url="http://demo.example/mcp")
    async with bench.running():
        assert await bench.catalog() is None
    assert bench.verified_condition()[:2] == ("False", "Unauthorized")


async def test_on_a_cluster_people_sign_in_only_where_the_spec_says_so() -> None:
    bench = laptop(Script(error=http_refusal()))
    bench.platform.environment = "cluster"
    async with bench.running():
        assert await bench.catalog() is None
    assert bench.verified_condition()[:2] == ("False", "Unauthorized")


async def test_lists_that_are_too_large_are_told_and_the_earlier_ones_stay() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await bench.refuse("the server lists 9.0 MiB" + "x" * 2000)
        assert bench.verified_condition()[:2] == ("False", "ListingTooLarge")
        assert "the server lists 9.0 MiB" in bench.verified_condition()[2]
        assert len(bench.verified_condition()[2]) < 1000
        (entry,) = (await bench.entries()).servers
        assert (entry.cause, entry.message[:24]) == ("ListingTooLarge", "the server lists 9.0 MiB")
        assert (await bench.tools()) == ["sign_in"]

        await bench.hand_over(listing("a"))
        assert bench.verified_condition()[:2] == ("True", "Verified")
        await bench.refuse("the server lists 9.0 MiB")
        assert bench.verified_condition()[:2] == ("True", "VerifiedInPart")
        assert "; the newest list is not used: the server lists 9.0 MiB" in bench.verified_condition()[2]
        (entry,) = (await bench.entries()).servers
        assert (entry.state, entry.cause) == ("ready", "VerifiedInPart")
        assert "the newest list is not used: the server lists 9.0 MiB" in entry.message
        assert await bench.tools() == ["a"]


async def test_the_catalog_says_when_a_gateway_last_read_the_lists_also_after_a_restart() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        catalog = await bench.catalog()
        assert catalog is not None
        assert catalog.lists_read_at == 0.0
        await bench.hand_over(listing("a"))
        catalog = await bench.catalog()
        assert catalog is not None
        read_at = catalog.lists_read_at
        assert NOW.timestamp() < read_at < NOW.timestamp() + 60
        updated_at = catalog.updated_at
        await bench.hand_over(listing("a"))
        catalog = await bench.catalog()
        assert catalog is not None
        assert (catalog.lists_read_at > read_at, catalog.updated_at) == (True, updated_at)
        read_at = catalog.lists_read_at
    async with bench.running():
        catalog = await bench.catalog()
        assert catalog is not None
        assert catalog.lists_read_at == read_at


async def test_a_gateway_whose_clock_is_ahead_keeps_no_others_lists_out() -> None:
    bench = Bench()
    bench.declare()
    async with bench.running():
        await bench.hand_over(listing("a"), ago=-3600)
        await bench.hand_over(listing("b"))
        assert await bench.tools() == ["b"]


async def test_a_refusal_that_may_have_another_reason_is_quoted() -> None:
    bench = Bench(script=Script(error=HttpRefused("the server refused with 403: address not allowed", status=403)))
    bench.declare()
    async with bench.running():
        assert bench.verified_condition()[:2] == ("False", "SignInRequired")
        assert "the server refused: the server refused with 403: address not allowed" in bench.verified_condition()[2]
