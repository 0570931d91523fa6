"""Credentials per call: each caller reaches a server as itself, with a token for which its own token was exchanged."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from fairlead_api.documents.catalog import CredentialRef, Limits
from fairlead_api.documents.oauth import AGENT, CLIENT_CREDENTIALS, ENTRA_ON_BEHALF_OF
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_client import AsyncToolRegistry, ExecutionError, Server
from fairlead_gateway.identity.serviceaccounts import ServiceAccountTokens
from fairlead_kube.client import Kube
from gatewayworld import LEGACY, MODERN, Ask, Wire, ask, calling, catalog, legacy, publish, scrape, wait_for_snapshots
from oauthworld import exchanging, oauth_catalog, of, text_of
from protectedservers import WHOAMI, protected_server
from restworld import post
from token_reviews import Reviewer
from tokenendpoint import TokenEndpoint, token_endpoint
from waiting import eventually


@pytest.mark.parametrize("server_era", [LEGACY, MODERN])
@pytest.mark.parametrize("client_era", [LEGACY, MODERN])
async def test_two_persons_call_one_server_each_as_itself(tmp_path: Path, client_era: str, server_era: str) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, version=server_era)
        async with exchanging(tmp_path, provider, box) as gateway:
            for _ in range(3):
                for person in ("alice", "bob"):
                    answer = await ask(gateway, of(provider, person, calling("box__whoami", era=client_era)))
                    assert text_of(answer) == person
    assert protected.crossed == []
    assert provider.tokens_by_person == {"alice": 1, "bob": 1}
    assert [*protected.sessions.values()] == []  # the sessions end with the gateway


async def test_the_clients_own_token_never_reaches_the_server(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url, version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            for era in (LEGACY, MODERN):
                own = provider.subject_token("alice")
                answer = await ask(gateway, calling("box__whoami", era=era).with_headers(authorization=f"Bearer {own}"))
                assert text_of(answer) == "alice"
                assert own not in repr(server.seen)
    assert all(request.headers["authorization"].startswith("Bearer ") for request in server.seen)


async def test_client_credentials_reach_the_server_as_the_gateway(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, oauth={"grant": CLIENT_CREDENTIALS}, version=LEGACY)
        async with exchanging(tmp_path, provider, box, anonymous="allow") as gateway:
            names = {text_of(await ask(gateway, calling("box__whoami"))) for _ in range(3)}
            names.add(text_of(await ask(gateway, of(provider, "alice", calling("box__whoami")))))
    assert len(names) == 1
    assert len([method for _, method, _ in protected.messages if method == "initialize"]) == 1
    assert provider.tokens_by_person == {"": 1} or sum(provider.tokens_by_person.values()) == 1


async def test_two_hundred_calls_after_expiry_wait_for_one_grant(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url)
        async with exchanging(tmp_path, provider, box) as gateway:
            request = of(provider, "alice", calling("box__whoami"))
            provider.hold["alice"] = asyncio.Event()
            calls = [asyncio.ensure_future(ask(gateway, request)) for _ in range(200)]
            await eventually(lambda: len(gateway.endpoint.context.calls) == 200)
            provider.hold["alice"].set()
            answers = await asyncio.gather(*calls)
    assert {text_of(answer) for answer in answers} == {"alice"}
    assert provider.tokens_by_person == {"alice": 1}


async def test_a_slow_grant_of_one_person_holds_up_no_other(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url)
        async with exchanging(tmp_path, provider, box, upstream_connections=2) as gateway:
            provider.hold["alice"] = asyncio.Event()
            slow = [
                asyncio.ensure_future(ask(gateway, of(provider, "alice", calling("box__whoami")))) for _ in range(20)
            ]
            await eventually(lambda: len(gateway.endpoint.context.calls) == 20)
            answers = [await ask(gateway, of(provider, "bob", calling("box__whoami"))) for _ in range(20)]
            assert {text_of(answer) for answer in answers} == {"bob"}
            assert not any(call.done() for call in slow)
            provider.hold["alice"].set()
            assert {text_of(answer) for answer in await asyncio.gather(*slow)} == {"alice"}


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_call_with_a_cached_token_needs_no_more_tasks_than_one_with_a_fixed_header(
    tmp_path: Path, era: str
) -> None:
    created: list[str] = []

    def record_task(loop: asyncio.AbstractEventLoop, work: Any, **named: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **named)
        created.append(task.get_name())
        return task

    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url, version=era)
        fixed = provider.token(sub="robot", client_id="x", aud="tools")
        (tmp_path / "credentials").mkdir()
        headers = {"headers": {"Authorization": f"Bearer {fixed}"}}
        (tmp_path / "credentials" / "fixed.json").write_text(json.dumps(headers))
        ref = CredentialRef(secret="fixed", key="k", hash="1")
        robot = catalog("robot", server.url, [WHOAMI], version=era, credential=ref)
        async with exchanging(tmp_path, provider, box, robot) as gateway:
            asyncio.get_running_loop().set_task_factory(record_task)
            try:
                counts = {name: [await counts_of(gateway, provider, name, created) for _ in range(6)] for name in TOOLS}
            finally:
                asyncio.get_running_loop().set_task_factory(None)
    fewest = {name: min(of_name[1:]) for name, of_name in counts.items()}  # the first call opens connections
    assert fewest["box__whoami"] == fewest["robot__whoami"] > 0


TOOLS = ("box__whoami", "robot__whoami")


async def counts_of(gateway: Gateway, provider: TokenEndpoint, name: str, created: list[str]) -> int:
    """Number of asyncio tasks that are created during one call of alice."""
    request = of(provider, "alice", calling(name))
    created.clear()
    assert text_of(await ask(gateway, request)) in ("alice", "robot")
    return len(created)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_401_is_answered_with_one_grant_and_one_repetition(tmp_path: Path, era: str) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, version=era)
        async with exchanging(tmp_path, provider, box) as gateway:
            request = of(provider, "alice", calling("box__whoami"))
            assert text_of(await ask(gateway, request)) == "alice"
            protected.refuse_tokens.add(provider.grants[-1].token)
            assert text_of(await ask(gateway, request)) == "alice"
            guard = gateway.registry.guard(box.key)
            assert guard.breaker.closed
            assert not guard.breaker.has_failures
            ((_, attempts),) = gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
    assert provider.tokens_by_person == {"alice": 2}
    assert protected.executed == {"alice": 2}
    assert [attempt.outcome for attempt in attempts] == ["ok", "neutral", "ok"]


async def test_a_server_that_refuses_each_token_is_told_to_the_caller(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url)
        async with exchanging(tmp_path, provider, box) as gateway:
            request = of(provider, "alice", calling("box__whoami"))
            protected.refuse_all = True
            answer = await ask(gateway, request)
            assert answer.refusal == "CREDENTIAL_UNAVAILABLE"
            assert "default/box refuses the access token, also a new one" in text_of(answer)
            assert provider.tokens_by_person == {"alice": 2}
            assert not any(grant.token in str(answer.message) for grant in provider.grants)
            assert gateway.registry.guard(box.key).breaker.closed
    assert protected.executed == {}


async def test_a_403_for_scopes_is_answered_with_a_token_that_has_them(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url)
        async with exchanging(tmp_path, provider, box) as gateway:
            request = of(provider, "alice", calling("box__whoami"))
            assert text_of(await ask(gateway, request)) == "alice"
            protected.demands.add("write")
            assert text_of(await ask(gateway, request)) == "alice"
            assert set(provider.grants[-1].scopes) == {"read", "write"}
            assert text_of(await ask(gateway, request)) == "alice"  # the same token is used
            assert provider.tokens_by_person == {"alice": 2}
            protected.demands.add("unheard")
            answer = await ask(gateway, request)
    assert answer.refusal == "CREDENTIAL_UNAVAILABLE"


async def test_a_caller_without_a_token_is_told_what_to_do(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url)
        async with exchanging(tmp_path, provider, box, anonymous="allow") as gateway:
            answer = await ask(gateway, calling("box__whoami"))
            assert answer.refusal == "CREDENTIAL_UNAVAILABLE"
            assert "call the gateway with a token of its identity provider" in text_of(answer)
            provider.strangers.add("carol")
            refused = await ask(gateway, of(provider, "carol", calling("box__whoami")))
            assert refused.refusal == "CREDENTIAL_UNAVAILABLE"
            assert "default/box" in text_of(refused)
    assert protected.messages == []


async def test_tokens_outlive_a_change_of_limits_but_not_of_the_secret(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        request = of(provider, "alice", calling("box__whoami"))
        async with exchanging(tmp_path, provider, oauth_catalog(provider, "box", server.url)) as gateway:
            assert text_of(await ask(gateway, request)) == "alice"
            granted = []
            for changed in (
                oauth_catalog(provider, "box", server.url, limits=Limits(calls_per_second=50.0)),
                oauth_catalog(provider, "box", server.url, version=LEGACY),
                oauth_catalog(provider, "box", server.url, version=LEGACY, hash="2"),
            ):
                replaced = gateway.registry.upstream(changed.key)
                swaps = gateway.snapshots.swaps
                publish(tmp_path / "documents", changed)
                await wait_for_snapshots(gateway, swaps + 1)
                assert gateway.registry.upstream(changed.key) is not replaced
                assert text_of(await ask(gateway, request)) == "alice"
                granted.append(provider.tokens_by_person["alice"])
    assert granted == [1, 1, 2]


async def test_claims_that_entra_demands_reach_the_client(tmp_path: Path) -> None:
    async with token_endpoint(entra=True) as provider, protected_server(provider) as (_, server):
        oauth = {"profile": ENTRA_ON_BEHALF_OF, "scopes": ("api://tools/.default",)}
        async with exchanging(tmp_path, provider, oauth_catalog(provider, "box", server.url, oauth=oauth)) as gateway:
            provider.strangers.add("alice")
            answer = await ask(gateway, of(provider, "alice", calling("box__whoami")))
            token = f"Bearer {provider.subject_token('alice')}"
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "box__whoami"}}
            over_rest = await post(gateway, "/v1/tool-calls", {"format": "mcp", "message": [call]}, authorization=token)
            endpoint = Server(
                name="g", url=f"http://127.0.0.1:{gateway.port}/mcp", headers={"Authorization": token}, prefix=""
            )
            async with AsyncToolRegistry([endpoint]) as registry:
                in_python = (await registry.execute("box__whoami")).error
    assert answer.refusal == "CREDENTIAL_UNAVAILABLE"
    claims = answer.message["result"]["_meta"]["fairlead.dev/error"]["claims"]
    (document,) = over_rest.message["calls"]
    assert (document["code"], document["claims"]) == ("CREDENTIAL_UNAVAILABLE", claims)
    assert isinstance(in_python, ExecutionError)
    assert in_python.claims == claims
    assert json.loads(claims) == {"access_token": {"polids": {"essential": True, "values": ["1"]}}}
    assert claims in text_of(answer)


async def test_a_service_account_calls_as_itself_where_the_authorization_server_takes_its_token(tmp_path: Path) -> None:
    """Tested with a provider that trusts the cluster's issuer, and with one that does not."""
    reviewed = ServiceAccountTokens(cast("Kube", Reviewer("fairlead")), ["fairlead"], 60.0)
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url)
        async with exchanging(tmp_path, provider, box, trust=Trust(authenticators=(reviewed,))) as gateway:

            def of_npc(ask: Ask, number: int) -> Ask:
                return of(provider, "system:serviceaccount:shop:npc", ask, aud="fairlead", jti=str(number))

            refused = await ask(gateway, of_npc(calling("box__whoami"), 1))
            assert refused.refusal == "CREDENTIAL_UNAVAILABLE"
            assert "default/box" in text_of(refused)
            assert provider.grants == []
            provider.subject_audience = "fairlead"
            assert text_of(await ask(gateway, of_npc(calling("box__whoami"), 2))) == "system:serviceaccount:shop:npc"
            explain = Ask(verb="GET", body=b"", target="/v1/tools/box__whoami/explain")
            answer = await ask(gateway, of_npc(explain, 2))
            assert "the caller's own access token" in answer.message["credential"]
    assert provider.tokens_by_person == {"system:serviceaccount:shop:npc": 1}


async def test_a_cancelled_call_ends_its_grant(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url)
        async with exchanging(tmp_path, provider, box) as gateway:
            provider.hold["alice"] = asyncio.Event()
            async with await Wire.connect(gateway) as wire:
                wire.send(of(provider, "alice", calling("box__whoami")))
                await provider.arrived.wait()
            await eventually(lambda: not gateway.endpoint.context.calls)
            assert provider.server is not None
            await asyncio.wait_for(provider.server.broken_off.wait(), 10)
            provider.hold["alice"].set()
    assert provider.tokens_by_person["alice"] == 0 or protected.messages == []


@pytest.mark.parametrize("per", ["Person", AGENT])
async def test_agents_of_a_person_share_a_grant_unless_told_apart(tmp_path: Path, per: str) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, oauth={"grants_per": per}, version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            for agent in ("planner", "coder"):
                await ask(gateway, of(provider, "alice", calling("box__whoami"), azp=agent))
    sessions = len([method for _, method, _ in protected.messages if method == "initialize"])
    assert (provider.tokens_by_person["alice"], sessions) == ((2, 2) if per == AGENT else (1, 1))


async def test_a_session_outlives_the_tokens_that_it_is_used_with(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url, version=LEGACY)
        async with exchanging(tmp_path, provider, box) as gateway:
            opened = await ask(gateway, of(provider, "alice", legacy("initialize", INITIALIZE)))
            session = opened.headers["mcp-session-id"]
            for number in range(3):
                request = calling("box__whoami", era=LEGACY, session=session)
                assert text_of(await ask(gateway, of(provider, "alice", request, jti=str(number)))) == "alice"
                if number == 0:
                    protected.refuse_tokens.add(provider.grants[-1].token)
            assert len(gateway.registry.upstream(box.key).sessions.open) == 1  # type: ignore[attr-defined]
    assert protected.crossed == []
    assert provider.tokens_by_person == {"alice": 2}
    assert len([method for _, method, _ in protected.messages if method == "initialize"]) == 1


INITIALIZE: dict[str, Any] = {
    "protocolVersion": LEGACY,
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "test", "version": "1"},
}


async def test_grants_are_counted_by_server_and_cause_and_audited_by_person_without_a_token(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url)
        provider.strangers.add("carol")
        async with exchanging(tmp_path, provider, box, audit="all", audit_file=log) as gateway:
            for person in ("alice", "carol"):
                await ask(gateway, of(provider, person, calling("box__whoami")))
            metrics = await scrape(gateway)
    grants = [entry for entry in map(json.loads, log.read_text().splitlines()) if entry["event"] == "grant"]
    assert [(entry["server"], entry["decision"], entry["outcome"]) for entry in grants] == [
        ("default/box", "allowed", "ok"),
        ("default/box", "refused", "access_denied"),
    ]
    assert [entry["principal"].partition("#")[2].partition("/")[0] for entry in grants] == ["alice", "carol"]
    for outcome in ("ok", "access_denied"):
        assert f'fairlead_server_grants_total{{fairlead_server="default/box",outcome="{outcome}"}} 1.0' in metrics
    assert "alice" not in metrics
    assert not any(grant.token in log.read_text() for grant in provider.grants)


async def test_calls_without_a_token_are_counted_and_audited_also_where_nothing_was_requested(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with token_endpoint() as provider, protected_server(provider) as (protected, server):
        box = oauth_catalog(provider, "box", server.url)
        provider.strangers.add("carol")
        async with exchanging(tmp_path, provider, box, anonymous="allow", audit="all", audit_file=log) as gateway:
            await ask(gateway, calling("box__whoami"))
            carol = of(provider, "carol", calling("box__whoami"))
            for _ in range(3):
                await ask(gateway, carol)
            protected.refuse_all = True
            await ask(gateway, of(provider, "alice", calling("box__whoami")))
            protected.refuse_all = False
            protected.demands.add("unheard")
            await ask(gateway, of(provider, "bob", calling("box__whoami")))
            metrics = await scrape(gateway)
    grants = [entry for entry in map(json.loads, log.read_text().splitlines()) if entry["event"] == "grant"]
    expected = {"no_subject_token": 1, "access_denied": 3, "token_refused": 1, "invalid_scope": 1, "ok": 3}
    assert Counter(entry["outcome"] for entry in grants) == expected
    for outcome, count in expected.items():
        line = f'fairlead_server_grants_total{{fairlead_server="default/box",outcome="{outcome}"}} {count}.0'
        assert line in metrics


async def test_explain_says_under_whose_credential_a_call_goes(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        box = oauth_catalog(provider, "box", server.url)
        robot = oauth_catalog(provider, "robot", server.url, oauth={"grant": CLIENT_CREDENTIALS})
        other = oauth_catalog(provider, "other", server.url, oauth={"issuer": "https://evil.example.com"})
        open_server = catalog("open", server.url, ["whoami"])
        async with exchanging(tmp_path, provider, box, robot, other, open_server, anonymous="allow") as gateway:

            async def credential(person: str, name: str, path: str = "tools/{}__whoami/explain") -> str | None:
                request = Ask(verb="GET", body=b"", target=f"/v1/{path.format(name)}")
                answer = await ask(gateway, of(provider, person, request) if person else request)
                return str(answer.message["credential"]) if answer.message["credential"] else None

            assert "the caller's own access token" in str(await credential("alice", "box"))
            assert "the caller's own access token" in str(await credential("alice", "box", "access?tool={}__whoami"))
            assert str(await credential("", "box")).startswith("none: the caller has no token")
            assert "the gateway's own access token" in str(await credential("alice", "robot"))
            for path in ("tools/{}__whoami/explain", "access?tool={}__whoami"):
                refused = str(await credential("alice", "other", path))
                assert refused.startswith("none: the caller's token may not be sent to https://evil.example.com")
            assert await credential("alice", "open") is None
