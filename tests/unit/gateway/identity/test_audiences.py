"""A token is accepted if its audience is the gateway, with or without a slash at the end, and only then."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwt_authenticator import Tokens
from fairlead_gateway.identity.serviceaccounts import ServiceAccountTokens
from fairlead_kube.client import Kube
from issuers import HERE, issuing
from token_reviews import Reviewer

SLASHES = [
    ("https://api.example.com", "https://api.example.com/"),
    ("https://api.example.com/", "https://api.example.com"),
    ("https://api.example.com/mcp", "https://api.example.com/mcp/"),
    ("api://fairlead", "api://fairlead/"),
]
OTHERS = [
    "https://api.example.com//",
    "https://api.example.com.evil.example/",
    "https://api.example.com/other",
    "HTTPS://API.EXAMPLE.COM/",
    "https://api.example.com/?",
    "",
    "/",
    7,
]


async def is_taken(audience: Any, *, audiences: tuple[str, ...] = ()) -> bool:
    async with issuing() as issuer:
        trust = Issuer(issuer=issuer.url, audiences=audiences)
        tokens = Tokens([trust], address=HERE, now=time.time, clock=time.monotonic)
        return isinstance(await tokens.look_up(issuer.token(aud=audience)), Identity)


@pytest.mark.parametrize(("wanted", "given"), SLASHES)
async def test_an_audience_may_differ_by_a_slash_at_its_end(wanted: str, given: str) -> None:
    assert await is_taken(given, audiences=(wanted,))
    assert await is_taken(["https://mail.example.com", given], audiences=("https://calendar.example.com", wanted))


@pytest.mark.parametrize("audience", [HERE, HERE + "/", HERE + "/mcp", HERE + "/mcp/"])
async def test_the_gateways_own_address_is_an_audience_with_a_slash_or_without(audience: str) -> None:
    assert await is_taken(audience)


@pytest.mark.parametrize("given", OTHERS)
async def test_an_audience_that_differs_by_more_is_another(given: Any) -> None:
    assert not await is_taken(given, audiences=("https://api.example.com",))


@pytest.mark.parametrize(
    ("wanted", "given", "taken"),
    [
        *((wanted, given, True) for wanted, given in SLASHES),
        ("fairlead", "fairlead", True),
        ("fairlead", "fairlead/", False),
        ("https://api.example.com", "https://api.example.com/other", False),
    ],
)
async def test_a_token_of_a_service_account_may_differ_by_a_slash_too(wanted: str, given: str, taken: bool) -> None:
    tokens = ServiceAccountTokens(cast("Kube", Reviewer(given)), [wanted], 60.0)
    assert isinstance(await tokens.look_up("x.e30.x"), Identity) is taken
