"""A gateway whose server is another gateway: people call its tools as themselves, by assertions (ID-JAG) of the
identity provider of both, the npm package `oidc-provider`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from authorizationworld import gateway_of, identity_file
from dexworld import STAFF_ALONE
from fairlead_api.documents.catalog import Catalog, Credential, CredentialRef
from fairlead_api.documents.oauth import ID_JAG, TOKEN_EXCHANGE, OAuthSettings, ResourceClientSettings
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.gateway import Gateway
from fairlead_authorization.clients.client_ids import DocumentAddress
from fairlead_authorization.clients.fetching import Fetch, FetchedMetadata
from fairlead_mcp.oauth.grants import ACCESS_TOKEN_TYPE, ID_TOKEN_TYPE
from gatewayworld import Answer, Wire, calling, catalog
from oauthworld import text_of
from ports import free_port
from signedinclients import SdkClient
from tokenproviders import CLIENT, SECRET, TokenProvider, oidc_provider
from toolservers import modern_server, tool

TOOL = "far__shop__buy"
SECRET_THERE = "the secret of the near gateway at the far one"
DOCUMENT = "https://near.example/client.json"
"""Client of the near gateway at the far one by a document, without a secret."""
TRUSTING: dict[str, Any] = {"assertions": ["corp"]}
BOUGHT = '{"item":"tea"}'
REFUSED = "the server answered with error -32602: Unknown tool: shop__buy"
"""Answer of the far gateway to a person whom no policy of its lets call the tool, passed on."""
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


@dataclass
class TwoGateways:
    """The near gateway, whose server is the far one."""

    folder: Path
    provider: TokenProvider
    near: str
    gateway: Gateway
    far_port: int
    shop: str

    @property
    def url(self) -> str:
        """Address of the far gateway."""
        return f"http://127.0.0.1:{self.far_port}"

    @contextlib.asynccontextmanager
    async def far(
        self, *issuers: dict[str, Any], client_documents: Fetch | None = None, **server: Any
    ) -> AsyncIterator[None]:
        """The far gateway, where the group staff may call. Keywords are members of its `authorizationServer`."""
        folder = self.folder / "far"
        folder.mkdir(exist_ok=True)
        secret = hashlib.sha256(SECRET_THERE.encode()).hexdigest()
        file = identity_file(
            folder,
            [{"issuer": self.provider.issuer, "name": "corp", "groupsClaim": "groups"}, *issuers],
            [{"issuer": "corp", "clientId": "far"}],
            more_clients=[{"id": CLIENT, "redirectUris": ["https://near.example/cb"], "secretSha256": secret}],
            **server,
        )
        settings = {"port": self.far_port, "shop": self.shop, "client_documents": client_documents}
        async with gateway_of(folder, file, STAFF_ALONE, **settings):
            yield

    async def call(self, person: str) -> Answer:
        """Answer of the near gateway to a person with a token of the provider."""
        token = await self.provider.sign_in(person)
        async with await Wire.connect(self.gateway) as wire:
            return await wire.ask(calling(TOOL, {"item": "tea"}).with_headers(authorization=f"Bearer {token}"))


@contextlib.asynccontextmanager
async def two_gateways(folder: Path, *, issuer: str | None = None, **own: Any) -> AsyncIterator[TwoGateways]:
    """The far gateway runs not yet. `issuer`: that of `resourceClient`, by default the far gateway; keywords are its
    other members.
    """
    near_port, far_port = free_port(), free_port()
    near, far = f"http://127.0.0.1:{near_port}", f"http://127.0.0.1:{far_port}"
    callback = f"{near}/oauth/callback/corp"
    people = {"alice": [far], "bob": [far], "carol": [far], "dave": [far]}
    async with (
        oidc_provider(folder, gateway=near, resources=[], grants=people, callbacks=[callback]) as provider,
        modern_server([tool("buy")]) as shop,
    ):
        await provider.mark(groups={name: ["staff"] for name in people if name != "bob"})
        here = folder / "near"
        (here / "credentials").mkdir(parents=True)
        credential = Credential(client_secret=SECRET, resource_client_secret=SECRET_THERE)
        (here / "credentials" / "far.json").write_bytes(msgspec.json.encode(credential))
        (here / "secret").write_text(SECRET)
        corp = {"issuer": "corp", "clientId": CLIENT, "clientSecretFile": str(here / "secret"), "prompt": "consent"}
        registration = {"redirectHosts": ["localhost"]}
        issuers = [{"issuer": provider.issuer, "name": "corp"}]
        file = identity_file(here, issuers, [corp], registration=registration)
        settings = OAuthSettings(
            grant=TOKEN_EXCHANGE,
            profile=ID_JAG,
            client_id=CLIENT,
            issuer=provider.issuer,
            resource_client=ResourceClientSettings(
                **{"client_id": CLIENT, "issuer": far if issuer is None else issuer, **own}
            ),
        )
        async with gateway_of(here, file, server(far, settings), PEOPLE, port=near_port) as (_, gateway):
            yield TwoGateways(folder, provider, near, gateway, far_port, shop.url)


def server(far: str, settings: OAuthSettings) -> Catalog:
    """The far gateway as a server of the near one."""
    ref = CredentialRef(secret="far", key="", hash="1")
    return catalog("far", f"{far}/mcp", ["shop__buy"], oauth=settings, credential=ref)


async def test_person_calls_through_two_gateways_and_the_policy_of_the_far_one_decides(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as world, world.far(**TRUSTING):
        assert text_of(await world.call("alice")) == BOUGHT
        assert text_of(await world.call("bob")) == REFUSED
        await world.provider.mark()
        asked = [(grant["person"], grant["type"], grant["audience"]) for grant in world.provider.granted()]
        assert asked == [(person, ACCESS_TOKEN_TYPE, world.url) for person in ("alice", "bob")]


async def test_person_who_signed_in_at_the_near_gateway_calls_through_both(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as world, world.far(**TRUSTING):
        alice, bob = (SdkClient(f"{world.near}/mcp", {"login": name, "password": "any"}) for name in ("alice", "bob"))
        assert json.loads(await alice.call(TOOL)) == {}
        assert await bob.call(TOOL) == REFUSED
        await world.provider.mark()
        asked = [(grant["person"], grant["type"], grant["audience"]) for grant in world.provider.granted()]
        assert asked == [(person, ID_TOKEN_TYPE, world.url) for person in ("alice", "bob")]


async def test_server_names_its_authorization_server_to_a_client_without_a_secret(tmp_path: Path) -> None:
    async def fetch(address: DocumentAddress, max_bytes: int) -> FetchedMetadata:
        document = {"client_id": address.url, "redirect_uris": ["https://near.example/cb"]}
        return FetchedMetadata(json.dumps({**document, "token_endpoint_auth_method": "none"}).encode(), 600.0)

    async with (
        two_gateways(tmp_path, issuer="", client_id=DOCUMENT, client_authentication="none") as world,
        world.far(client_documents=fetch, clientHosts=["near.example"], **TRUSTING),
    ):
        await world.provider.mark(clients={world.url: DOCUMENT})
        assert text_of(await world.call("alice")) == BOUGHT
        assert text_of(await world.call("bob")) == REFUSED


async def test_server_that_names_another_issuer_gets_nothing(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, issuer="https://other.example") as world, world.far(**TRUSTING):
        text = text_of(await world.call("alice"))
        assert "step 2 of 2" in text
        assert f"the server takes tokens of {world.url}, but the client is registered at https://other.example" in text
        await world.provider.mark()
        assert world.provider.granted() == []


async def test_far_gateway_that_does_not_trust_the_provider_any_more_is_to_be_corrected(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as world:
        async with world.far(**TRUSTING):
            assert text_of(await world.call("alice")) == BOUGHT
        async with world.far({"issuer": "https://other.example", "name": "other"}, assertions=["other"]):
            text = text_of(await world.call("carol"))
            assert "step 2 of 2" in text
            assert "(invalid_grant: “the issuer of the assertion (claim iss) is not one" in text
            assert "let this authorization server trust the identity provider" in text
        async with world.far():
            text = text_of(await world.call("dave"))
            assert "step 2 of 2" in text
            assert "let this authorization server take assertions of the identity provider" in text
            assert "sign in" not in text
