"""Users who signed in at the gateway's own authorization server call servers as themselves, by token exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

import dexexchange
import keycloak
from authorizationworld import gateway_of, identity_file
from dexexchange import dex_exchange
from dexworld import STAFF_ALONE
from fairlead_api.documents.catalog import Catalog, Credential, CredentialRef
from fairlead_api.documents.oauth import TOKEN_EXCHANGE, OAuthSettings
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import Identity
from gatewayworld import Answer, Wire, calling, catalog
from jwtservers import python_server
from ports import free_port
from signedinclients import SdkClient

TOOL = "desk__whoami"


def exchange_catalog(folder: Path, url: str, secret: str, **oauth: Any) -> Catalog:
    """Catalog of a server that gets exchanged tokens, with the secret of the gateway's client."""
    credentials = folder / "credentials"
    credentials.mkdir(exist_ok=True)
    (credentials / "desk.json").write_bytes(msgspec.json.encode(Credential(client_secret=secret)))
    settings = OAuthSettings(grant=TOKEN_EXCHANGE, **oauth)
    tools = [{"name": "whoami", "inputSchema": {"type": "object"}}]
    return catalog("desk", url, tools, oauth=settings, credential=CredentialRef(secret="desk", key="", hash="1"))


def write_identity_file(folder: Path, issuer: dict[str, Any], client_id: str, secret: str) -> Path:
    """identity.yaml of a gateway with a provider, at which clients register themselves."""
    (folder / "secret").write_text(secret)
    client = {"issuer": "corp", "clientId": client_id, "clientSecretFile": str(folder / "secret")}
    registration = {"redirectHosts": ["localhost"]}
    return identity_file(folder, [{"name": "corp", **issuer}], [client], registration=registration)


async def call_as(gateway: Gateway, client: SdkClient) -> Answer:
    """Answer to a call with a client's access token."""
    assert client.tokens is not None
    async with await Wire.connect(gateway) as wire:
        return await wire.ask(calling(TOOL, {}).with_headers(authorization=f"Bearer {client.tokens.access_token}"))


async def sign_out(gateway: Gateway, client: SdkClient) -> None:
    """End all sign-ins of the user who is signed in at a client."""
    sign_ins = gateway.rest.administration.client_sign_ins
    assert sign_ins is not None
    assert client.tokens is not None
    identity = await gateway.endpoint.identities.identify(f"Bearer {client.tokens.access_token}".encode())
    assert isinstance(identity, Identity)
    assert [each async for each in sign_ins.end_all(identity.person)]


async def test_server_sees_each_person_of_dex_until_the_person_signs_out(tmp_path: Path) -> None:
    port = free_port()
    callback = f"http://127.0.0.1:{port}/oauth/callback/corp"
    async with (
        dex_exchange(tmp_path, callbacks=[callback]) as dexes,
        python_server(dexes.issuer, dexes.jwks_url, audience=dexexchange.TOOLS, scope="") as server,
    ):
        desk = exchange_catalog(
            tmp_path,
            server.url,
            dexexchange.SECRET,
            client_id=dexexchange.CLIENT,
            issuer=dexes.issuer,
            scopes=dexexchange.SCOPES,
            subject_token_type=dexexchange.ID_TOKEN,
            parameters={"connector_id": dexexchange.CONNECTOR},
        )
        file = write_identity_file(tmp_path, {"issuer": dexes.people}, dexexchange.GATEWAY, dexexchange.GATEWAY)
        allowed = (dexes.issuer,)
        async with gateway_of(tmp_path, file, desk, port=port, token_exchange_allowed=allowed) as (base, gateway):
            logins = [{"login": f"{name}@example.com", "password": dexexchange.PASSWORD} for name in ("alice", "bob")]
            clients = [SdkClient(f"{base}/mcp", login) for login in logins]
            assert [await client.call(TOOL) for client in (*clients, *clients)] == ["alice", "bob", "alice", "bob"]
            await sign_out(gateway, clients[0])
            refused = await call_as(gateway, clients[0])
            assert (refused.status, "invalid_token" in refused.headers["www-authenticate"]) == (401, True)
            assert await clients[1].call(TOOL) == "bob"


@pytest.mark.nightly
@pytest.mark.heavy
@pytest.mark.timeout(900)
async def test_people_of_keycloak_sign_in_by_url_alone_and_a_disabled_one_is_out_at_the_next_refresh(
    tmp_path: Path,
) -> None:
    port = free_port()
    here = f"http://127.0.0.1:{port}"
    callback = f"{here}/oauth/callback/corp"
    async with (
        keycloak.keycloak(tmp_path, gateway=here, callbacks=[callback]) as provider,
        python_server(provider.issuer, provider.jwks_url, audience=keycloak.TOOLS, scope="") as server,
    ):
        desk = exchange_catalog(
            tmp_path,
            server.url,
            keycloak.SECRET,
            client_id=keycloak.CLIENT,
            issuer=provider.issuer,
            audience=keycloak.TOOLS,
        )
        file = write_identity_file(tmp_path, {"issuer": provider.issuer}, keycloak.CLIENT, keycloak.SECRET)
        async with gateway_of(tmp_path, file, desk, STAFF_ALONE, port=port) as (base, gateway):
            alice, bob = (
                SdkClient(f"{base}/mcp", {"username": name, "password": keycloak.PASSWORD}) for name in ("alice", "bob")
            )
            assert await alice.tools() == [TOOL, "shop__buy"]
            assert await bob.tools() == []
            assert await alice.call(TOOL) == "alice"
            alice.expire()
            assert await alice.call(TOOL) == "alice"
            await provider.disable("alice")
            assert alice.tokens is not None
            assert alice.registration is not None
            fields = {
                "grant_type": "refresh_token",
                "client_id": alice.registration.client_id,
                "refresh_token": alice.tokens.refresh_token,
            }
            async with aiohttp.ClientSession() as session, session.post(f"{base}/oauth/token", data=fields) as answer:
                assert (answer.status, (await answer.json())["error"]) == (400, "invalid_grant")
            assert (await call_as(gateway, alice)).status == 401
