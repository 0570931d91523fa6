"""Names of agents and groups from two issuers: a name from one issuer does not have the rights of the other's."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from commands import fairlead
from fairlead_api.bad_setting import BadSetting
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.identity.key_format import encode_keys, new_key
from gatewayworld import catalog, running, scrape
from issuers import HERE, LocalIssuer, issuing
from policyworld import list_tools
from restworld import get
from waiting import until_async

SHOP = catalog("shop", "http://127.0.0.1:9/mcp", ["get", "refund"])
EVERYBODY = Policy(namespace="default", name="all", every=True, rules=(Rule(action="Allow", tools=("get",)),))


def refunds(*subjects: Subject, action: str = "Allow") -> Rules:
    """Policy that allows or denies refunds for some subjects."""
    rule = Rule(action=action, tools=("refund",))
    named = Policy(namespace="default", name="refunds", every=True, subjects=subjects, rules=(rule,))
    if action == "Allow":
        return Rules(policies=(EVERYBODY, named))
    everything = Policy(namespace="default", name="all", every=True, rules=(Rule(action="Allow", tools=("*",)),))
    return Rules(policies=(everything, named))


def settings_with_issuers(
    folder: Path, *issuers: LocalIssuer, names: tuple[str, ...] = ("corp", "partner"), **more: Any
) -> Any:
    """Settings of a gateway that accepts the tokens of these issuers, and its trust."""
    file = folder / "identity.yaml"
    told = [{"issuer": issuer.url, "name": name} for issuer, name in zip(issuers, names, strict=False)]
    file.write_text(json.dumps({"issuers": told}))
    settings: dict[str, Any] = {"identity": file, "public_url": HERE, **more}
    return {**settings, "trust": build_trust(Settings.of(**settings))}


def key_for(folder: Path, agent: str, *groups: str) -> tuple[str, Path]:
    """Create an API key. Returns it, and a file with only this key."""
    key, record = new_key(agent, groups, now=datetime.now(UTC))
    (folder / "keys.json").write_bytes(encode_keys([record]))
    return key, folder / "keys.json"


async def may_refund(gateway: Gateway, token: str) -> bool:
    return "shop__refund" in await list_tools(gateway, token)


OPS = Subject(kind="Agent", name="ops", issuer="corp")
ADMINS = Subject(kind="Group", name="admins", issuer="corp")


@pytest.mark.parametrize("subject", [OPS, ADMINS], ids=["agent", "group"])
async def test_the_same_name_from_another_issuer_is_somebody_else(tmp_path: Path, subject: Subject) -> None:
    async with issuing() as ours, issuing() as theirs:
        options = settings_with_issuers(tmp_path, ours, theirs)
        async with running(tmp_path, SHOP, refunds(subject), **options) as gateway:
            claims: dict[str, Any] = {"aud": HERE, "azp": "ops", "groups": ["admins"]}
            assert await may_refund(gateway, ours.token(**claims))
            assert not await may_refund(gateway, theirs.token(**claims))
            assert not await may_refund(gateway, theirs.token(**{**claims, "azp": None}, sub="ops"))


WITHOUT_ISSUER = {
    "Agent": Subject(kind="Agent", name="ops"),
    "Group": Subject(kind="Group", name="admins"),
    "Claim": Subject(kind="Claim", name="azp", value="ops"),
}


@pytest.mark.parametrize("kind", WITHOUT_ISSUER)
async def test_a_name_without_an_issuer_gives_nothing_where_there_are_two(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with issuing() as ours, issuing() as theirs:
        options = settings_with_issuers(tmp_path, ours, theirs)
        async with running(tmp_path, SHOP, refunds(WITHOUT_ISSUER[kind]), **options) as gateway:
            claims: dict[str, Any] = {"aud": HERE, "azp": "ops", "groups": ["admins"]}
            assert [await may_refund(gateway, each.token(**claims)) for each in (ours, theirs)] == [False, False]
            assert "fairlead_policies_without_issuer 1.0" in await scrape(gateway)
            assert "Add `issuer` to the subjects of default/refunds" in caplog.text


@pytest.mark.parametrize("kind", WITHOUT_ISSUER)
async def test_a_name_without_an_issuer_takes_from_all_of_that_name_where_there_are_two(
    tmp_path: Path, kind: str
) -> None:
    async with issuing() as ours, issuing() as theirs:
        rules = refunds(WITHOUT_ISSUER[kind], action="Deny")
        async with running(tmp_path, SHOP, rules, **settings_with_issuers(tmp_path, ours, theirs)) as gateway:
            claims: dict[str, Any] = {"aud": HERE, "azp": "ops", "groups": ["admins"]}
            assert [await may_refund(gateway, each.token(**claims)) for each in (ours, theirs)] == [False, False]
            assert await may_refund(gateway, ours.token(aud=HERE, azp="else"))


async def test_every_issuer_may_be_meant_on_purpose(tmp_path: Path) -> None:
    async with issuing() as ours, issuing() as theirs:
        rules = refunds(Subject(kind="Group", name="admins", issuer="*"))
        async with running(tmp_path, SHOP, rules, **settings_with_issuers(tmp_path, ours, theirs)) as gateway:
            for issuer in (ours, theirs):
                assert await may_refund(gateway, issuer.token(aud=HERE, groups=["admins"]))


async def test_with_a_single_issuer_names_need_none(tmp_path: Path) -> None:
    async with issuing() as issuer:
        rules = refunds(Subject(kind="Agent", name="ops"), Subject(kind="Group", name="admins"))
        _, file = key_for(tmp_path, "npc", "players")
        options = settings_with_issuers(tmp_path, issuer, api_keys=file, admin_groups=("admins",))
        async with running(tmp_path, SHOP, rules, **options) as gateway:
            agent = issuer.token(aud=HERE, azp="ops")
            member = issuer.token(aud=HERE, groups=["admins"])
            await until_async("API keys that were read", lambda: may_refund(gateway, agent), seconds=30)
            assert await may_refund(gateway, member)
            assert await status_of_others(gateway, member) == 200
            assert not await may_refund(gateway, issuer.token(aud=HERE, azp=None, sub="ops")), "sub names no agent"


async def test_a_name_that_an_api_key_carries_is_not_a_tokens(tmp_path: Path) -> None:
    async with issuing() as issuer:
        key, file = key_for(tmp_path, "ops", "admins")
        rules = refunds(Subject(kind="Agent", name="ops"), Subject(kind="Group", name="admins"))
        options = settings_with_issuers(tmp_path, issuer, api_keys=file, admin_groups=("admins",))
        async with running(tmp_path, SHOP, rules, **options) as gateway:
            token = issuer.token(aud=HERE, azp="ops", groups=["admins"])
            assert await may_refund(gateway, key)
            assert not await may_refund(gateway, token)
            assert await status_of_others(gateway, key) == 200
            assert await status_of_others(gateway, token) == 403
            file.write_bytes(encode_keys([]))
            await until_async("the name given back", lambda: may_refund(gateway, token), seconds=30)


async def test_names_of_api_keys_can_be_asked_for(tmp_path: Path) -> None:
    async with issuing() as ours, issuing() as theirs:
        key, file = key_for(tmp_path, "ops")
        rules = refunds(Subject(kind="Agent", name="ops", issuer="apiKeys"))
        options = settings_with_issuers(tmp_path, ours, theirs, api_keys=file)
        async with running(tmp_path, SHOP, rules, **options) as gateway:
            assert await may_refund(gateway, key)
            assert not await may_refund(gateway, ours.token(aud=HERE, azp="ops"))


async def status_of_others(gateway: Gateway, token: str) -> int:
    """Status of the answer to a request that only administrators may make."""
    query = urlencode({"tool": "shop__refund", "agent": "somebody-else"})
    return (await get(gateway, f"/v1/access?{query}", authorization=f"Bearer {token}")).status


@pytest.mark.parametrize("written_as", ["corp#admins", "{issuer}#admins"])
async def test_administrators_are_those_of_their_issuer(tmp_path: Path, written_as: str) -> None:
    async with issuing() as ours, issuing() as theirs:
        group = written_as.format(issuer=ours.url)
        async with running(
            tmp_path, SHOP, **settings_with_issuers(tmp_path, ours, theirs, admin_groups=(group,))
        ) as gateway:
            assert await status_of_others(gateway, ours.token(aud=HERE, groups=["admins"])) == 200
            assert await status_of_others(gateway, theirs.token(aud=HERE, groups=["admins"])) == 403
            assert await status_of_others(gateway, theirs.token(aud=HERE, groups=[group])) == 403


async def test_a_group_of_administrators_needs_its_issuer_where_there_are_two(tmp_path: Path) -> None:
    async with issuing() as ours, issuing() as theirs:
        with pytest.raises(
            BadSetting, match=r"FAIRLEAD_ADMIN_GROUPS: group .* as there are 2 issuers: write ISSUER#admins, .*corp"
        ):
            settings_with_issuers(tmp_path, ours, theirs, admin_groups=("admins",))
        with pytest.raises(BadSetting, match="same name"):
            settings_with_issuers(tmp_path, ours, theirs, names=("corp", "corp"))


async def test_fairlead_can_says_that_an_issuer_is_missing(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        ours, theirs = [await stack.enter_async_context(issuing()) for _ in range(2)]
        rules = refunds(Subject(kind="Agent", name="ops"))
        options = settings_with_issuers(tmp_path, ours, theirs, admin_groups=("corp#admins",))
        gateway = await stack.enter_async_context(running(tmp_path, SHOP, rules, **options))
        token = ours.token(aud=HERE, groups=["admins"])
        url = f"http://127.0.0.1:{gateway.port}"
        code, out, _ = await fairlead("can", "ops", "call", "shop__refund", "--url", url, "--token", token)
        assert code == 1
        assert "default/refunds names its subject without an issuer" in out
        words = ["can", "ops", "call", "shop__refund", "--issuer", "nobody", "--url", url, "--token", token]
        code, _, error = await fairlead(*words)
        assert code != 0
        assert "corp" in error
