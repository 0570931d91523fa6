"""A gateway whose server is another gateway: users call its tools as themselves, with assertions (ID-JAG) of the
identity provider that both gateways trust.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from authorizationworld import gateway_of, identity_file
from fairlead_api.documents.catalog import Catalog, Credential, CredentialRef
from fairlead_api.documents.oauth import ID_JAG, TOKEN_EXCHANGE, OAuthSettings, ResourceClientSettings
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.gateway import Gateway
from fairlead_authorization.clients.client_ids import DocumentAddress
from fairlead_authorization.clients.fetching import FetchedMetadata
from fairlead_mcp.oauth.grants import ACCESS_TOKEN_TYPE, ID_TOKEN_TYPE
from fargateway import BOUGHT, REFUSED, SECRET_THERE, FarGateway, far_gateway
from fargateway import TOOL as FAR_TOOL
from gatewayworld import Wire, calling, catalog
from oauthworld import text_of
from ports import free_port
from signedinclients import SdkClient
from tokenproviders import CLIENT, SECRET, TokenProvider

TOOL = f"far__{FAR_TOOL}"
DOCUMENT = "https://near.example/client.json"
"""The near gateway's client at the far gateway: a client document, without a secret."""
TRUSTING: dict[str, Any] = {"assertions": ["corp"]}
PEOPLE = Rules(
    policies=(
        Policy(
            namespace="default",
            name="people",
            every=True,
            subjects=(Subject(kind="Authenticated"),),
            rules=(Rule(action="Allow", tools=("*",)),),
        ),
    ),
)


@dataclass(frozen=True)
class TwoGateways:
    """The near gateway, whose server is the far gateway. The far gateway is started later."""

    near: str
    gateway: Gateway
    far: FarGateway

    @property
    def provider(self) -> TokenProvider:
        return self.far.provider

    async def call(self, person: str) -> str:
        """Call a tool at the near gateway with a user's token of the provider. Returns the text of the result."""
        token = await self.provider.sign_in(person)
        async with await Wire.connect(self.gateway) as wire:
            ask = calling(TOOL, {"item": "tea"}).with_headers(authorization=f"Bearer {token}")
            return text_of(await wire.ask(ask))

    async def assertion_requests(self) -> list[tuple[str, str, str]]:
        """User, type of the subject token, and audience of each request for an assertion."""
        await self.provider.mark()
        return [(grant["person"], grant["type"], grant["audience"]) for grant in self.provider.token_events()]


@contextlib.asynccontextmanager
async def two_gateways(folder: Path, *, issuer: str | None = None, **own: Any) -> AsyncIterator[TwoGateways]:
    """`issuer`: issuer in `resourceClient`, by default the far gateway. Keywords are the other members of
    `resourceClient`."""
    port = free_port()
    near = f"http://127.0.0.1:{port}"
    here = folder / "near"
    (here / "credentials").mkdir(parents=True)
    credential = Credential(client_secret=SECRET, resource_client_secret=SECRET_THERE)
    (here / "credentials" / "far.json").write_bytes(msgspec.json.encode(credential))
    (here / "secret").write_text(SECRET)
    async with far_gateway(folder, near, [f"{near}/oauth/callback/corp"]) as far:
        provider = far.provider.issuer
        client = {"issuer": "corp", "clientId": CLIENT, "clientSecretFile": str(here / "secret"), "prompt": "consent"}
        registration = {"redirectHosts": ["localhost"]}
        file = identity_file(here, [{"issuer": provider, "name": "corp"}], [client], registration=registration)
        members = {"client_id": CLIENT, "issuer": far.url if issuer is None else issuer, **own}
        settings = OAuthSettings(
            grant=TOKEN_EXCHANGE,
            profile=ID_JAG,
            client_id=CLIENT,
            issuer=provider,
            resource_client=ResourceClientSettings(**members),
        )
        async with gateway_of(here, file, server_of(far, settings), PEOPLE, port=port) as (_, gateway):
            yield TwoGateways(near, gateway, far)


def server_of(far: FarGateway, settings: OAuthSettings) -> Catalog:
    """Catalog of the far gateway as a server of the near one."""
    ref = CredentialRef(secret="far", key="", hash="1")
    return catalog("far", f"{far.url}/mcp", [FAR_TOOL], oauth=settings, credential=ref)


async def test_person_calls_through_two_gateways_and_the_policy_of_the_far_one_decides(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as world, world.far.running(**TRUSTING):
        assert await world.call("alice") == BOUGHT
        assert await world.call("bob") == REFUSED
        assert await world.assertion_requests() == [
            (person, ACCESS_TOKEN_TYPE, world.far.url) for person in ("alice", "bob")
        ]


async def test_person_who_signed_in_at_the_near_gateway_calls_through_both(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as world, world.far.running(**TRUSTING):
        alice, bob = (SdkClient(f"{world.near}/mcp", {"login": name, "password": "any"}) for name in ("alice", "bob"))
        assert json.loads(await alice.call(TOOL)) == {}
        assert await bob.call(TOOL) == REFUSED
        assert await world.assertion_requests() == [
            (person, ID_TOKEN_TYPE, world.far.url) for person in ("alice", "bob")
        ]


async def test_server_names_its_authorization_server_to_a_client_without_a_secret(tmp_path: Path) -> None:
    async def fetch(address: DocumentAddress, max_bytes: int) -> FetchedMetadata:
        document = {"client_id": address.url, "redirect_uris": ["https://near.example/cb"]}
        return FetchedMetadata(json.dumps({**document, "token_endpoint_auth_method": "none"}).encode(), 600.0)

    async with (
        two_gateways(tmp_path, issuer="", client_id=DOCUMENT, client_authentication="none") as world,
        world.far.running(client_documents=fetch, clientHosts=["near.example"], **TRUSTING),
    ):
        await world.provider.mark(clients={world.far.url: DOCUMENT})
        assert await world.call("alice") == BOUGHT
        assert await world.call("bob") == REFUSED


async def test_server_that_names_another_issuer_gets_nothing(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, issuer="https://other.example") as world, world.far.running(**TRUSTING):
        text = await world.call("alice")
        assert "step 2 of 2" in text
        complaint = f"the server accepts tokens of {world.far.url}, but the client is registered at "
        assert f"{complaint}https://other.example" in text
        assert await world.assertion_requests() == []


async def test_far_gateway_that_does_not_trust_the_provider_any_more_is_to_be_corrected(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as world:
        async with world.far.running(**TRUSTING):
            assert await world.call("alice") == BOUGHT
        async with world.far.running({"issuer": "https://other.example", "name": "other"}, assertions=["other"]):
            text = await world.call("carol")
            assert "step 2 of 2" in text
            assert "(invalid_grant: “this gateway does not accept assertions of this issuer" in text
            assert "configure this authorization server to trust the identity provider" in text
        async with world.far.running():
            text = await world.call("dave")
            assert "step 2 of 2" in text
            assert "configure this authorization server to accept assertions of the identity provider" in text
            assert "sign in" not in text
