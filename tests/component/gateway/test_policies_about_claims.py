"""Policies about claims of tokens: a claim's value, an element of a list, a member of an object, claims of one
issuer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import fairlead
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_api.policies.subjects import PoliciesBySubject, keys_of
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from gatewayworld import Wire, catalog, modern, running
from issuers import issuing

HERE = "https://tools.example.com"
SHOP = catalog("shop", "http://127.0.0.1:9/mcp", ["get", "refund"])
EVERYBODY = Policy(namespace="default", name="all", every=True, rules=(Rule(action="Allow", tools=("get",)),))


def refunds(**claim: str) -> Policy:
    """Policy that allows refunds to callers with a claim."""
    rules = (Rule(action="Allow", tools=("refund",)),)
    return Policy(
        namespace="default", name="refunds", every=True, subjects=(Subject(kind="Claim", **claim),), rules=rules
    )


async def tools(gateway: Gateway, token: str) -> list[str]:
    async with await Wire.connect(gateway) as wire:
        answer = await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {token}"))
        return [each["name"] for each in answer.message["result"]["tools"]]


TABLE: list[tuple[str, str, Any, bool]] = [
    ("department", "sales", "sales", True),
    ("department", "sales", "Sales", False),
    ("department", "sales", "sales ", False),
    ("department", "sales", ["support", "sales"], True),
    ("department", "sales", ["support sales"], False),
    ("department", "sales", [["sales"]], False),
    ("department", "sales", {"sales": True}, False),
    ("department", "sales", None, False),
    ("trial", "true", True, True),
    ("trial", "true", "true", True),
    ("trial", "1", True, False),
    ("level", "7", 7, True),
    ("level", "7", 7.0, False),
]


@pytest.mark.parametrize(("name", "value", "claim", "spoken_of"), TABLE)
def test_a_claim_is_compared_whole(name: str, value: str, claim: Any, spoken_of: bool) -> None:
    speakers = PoliciesBySubject([refunds(name=name, value=value)])
    keys = keys_of("npc", (), None, authenticated=True)
    assert bool(speakers.of(keys, {"iss": "https://i", name: claim})) is spoken_of
    assert not speakers.of(keys), "who has no token has no claim"


def test_a_dot_leads_into_objects_where_no_claim_has_that_very_name() -> None:
    speakers = PoliciesBySubject([refunds(name="realm.roles", value="clerk")])
    assert speakers.of((), {"realm": {"roles": ["clerk"]}})
    assert not speakers.of((), {"realm": {"roles": ["clerk"]}, "realm.roles": "guest"})
    assert not speakers.of((), {"realm": ["roles"], "roles": "clerk"})


def test_a_group_or_an_agent_of_that_name_is_not_a_claim() -> None:
    speakers = PoliciesBySubject([refunds(name="department", value="sales")])
    assert not speakers.of(
        keys_of("department", ("sales", "department"), None, authenticated=True), {"iss": "https://i"}
    )


async def test_a_token_with_the_claim_opens_what_it_is_for(tmp_path: Path) -> None:
    async with issuing() as issuer:
        file = tmp_path / "identity.yaml"
        file.write_text(json.dumps({"issuers": [{"issuer": issuer.url}]}))
        settings: dict[str, Any] = {"identity": file, "public_url": HERE}
        rules = Rules(policies=(EVERYBODY, refunds(name="department", value="sales", issuer=issuer.url)))
        async with running(tmp_path, SHOP, rules, **settings, trust=build_trust(Settings.of(**settings))) as gateway:
            plain = issuer.token(aud=HERE)
            sales = issuer.token(aud=HERE, department=["sales"])
            assert await tools(gateway, plain) == ["shop__get"]
            assert await tools(gateway, sales) == ["shop__get", "shop__refund"]
            assert await tools(gateway, plain) == ["shop__get"], "both have the same principal"


async def test_claims_of_another_issuer_are_not_believed(tmp_path: Path) -> None:
    async with issuing() as ours, issuing() as theirs:
        file = tmp_path / "identity.yaml"
        file.write_text(json.dumps({"issuers": [{"issuer": ours.url}, {"issuer": theirs.url}]}))
        settings: dict[str, Any] = {"identity": file, "public_url": HERE}
        rules = Rules(policies=(EVERYBODY, refunds(name="department", value="sales", issuer=ours.url)))
        async with running(tmp_path, SHOP, rules, **settings, trust=build_trust(Settings.of(**settings))) as gateway:
            assert await tools(gateway, ours.token(aud=HERE, department="sales")) == ["shop__get", "shop__refund"]
            assert await tools(gateway, theirs.token(aud=HERE, department="sales")) == ["shop__get"]


async def test_fairlead_can_asks_about_claims(tmp_path: Path) -> None:
    rules = Rules(policies=(EVERYBODY, refunds(name="department", value="sales")))
    async with running(tmp_path, SHOP, rules) as gateway:
        words = ["can", "npc", "call", "shop__refund", "--url", f"http://127.0.0.1:{gateway.port}"]
        codes = [
            (await fairlead(*words, *more))[0]
            for more in (
                [],
                ["--claim", "department=support", "--claim", "department=sales"],
                ["--claim", "department"],
            )
        ]
        assert codes == [1, 0, 2]
