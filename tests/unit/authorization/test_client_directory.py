"""The directory of clients: clients of the settings take precedence, and each kind of id has one place of lookup."""

from __future__ import annotations

import hashlib
import json

import pytest
from joserfc.jwk import ECKey

from clientdocuments import CLAUDE, CURSOR_REGISTRATION
from fairlead_api.bad_setting import BadSetting
from fairlead_authorization.clients.client import ClientDirectory, UnknownClient
from fairlead_authorization.clients.client_ids import DocumentAddress
from fairlead_authorization.clients.configured import configured_clients
from fairlead_authorization.clients.directory import Clients
from fairlead_authorization.clients.document_clients import DocumentClients
from fairlead_authorization.clients.fetching import FetchedMetadata
from fairlead_authorization.clients.registration import Registrations
from fairlead_gateway.identity.authorization_server import ClientRegistrationSettings, ConfiguredClient

SECRET = hashlib.sha256(b"secret").hexdigest()
APP = ConfiguredClient(id="app", name="App", redirect_uris=("https://app.example/cb",), secret_sha256=SECRET)


async def fetch(address: DocumentAddress, max_bytes: int) -> FetchedMetadata:
    return FetchedMetadata(json.dumps({**CLAUDE, "client_id": address.url}).encode(), 0.0)


def directory(*configured: ConfiguredClient, registration: bool = True) -> Clients:
    registrations = Registrations(ClientRegistrationSettings(redirect_hosts=("localhost", "www.cursor.com")), b"k" * 32)
    return Clients(
        configured_clients(configured, {"app": "shop"}),
        registrations if registration else None,
        DocumentClients(fetch, ("claude.ai",), {}),
    )


async def test_each_kind_of_client_is_found() -> None:
    clients: ClientDirectory = (everybody := directory(APP))
    assert everybody.registrations is not None
    registered = everybody.registrations.register(json.dumps(CURSOR_REGISTRATION).encode())
    app = await clients.find("app")
    assert (app.kind, app.name, app.agent, app.authentication, app.secret_sha256) == (
        "configured",
        "App",
        "shop",
        "client_secret_basic",
        SECRET,
    )
    assert (await clients.find(registered.client_id)).kind == "registered"
    assert (await clients.find(CLAUDE["client_id"])).kind == "document"
    await everybody.aclose()


@pytest.mark.parametrize("client_id", ["", "ap", "app ", "APP", "claude.ai/oauth/mcp-oauth-client-metadata", "ä" * 500])
async def test_another_id_is_unknown(client_id: str) -> None:
    with pytest.raises(UnknownClient, match="can add it to clients of authorizationServer") as caught:
        await directory(APP).find(client_id)
    assert len(str(caught.value)) < 300


async def test_a_registered_client_is_unknown_where_clients_cannot_register() -> None:
    everybody = directory()
    assert everybody.registrations is not None
    registered = everybody.registrations.register(json.dumps(CURSOR_REGISTRATION).encode())
    with pytest.raises(UnknownClient, match="clients cannot register themselves here"):
        await directory(registration=False).find(registered.client_id)


async def test_an_administrator_can_describe_a_client_with_a_document_so_that_nothing_is_fetched() -> None:
    url = "https://apps.corp.example/client.json"
    client = await directory(ConfiguredClient(id=url, redirect_uris=("http://localhost/cb",))).find(url)
    assert (client.kind, client.agent, client.authentication, client.name) == ("configured", url, "none", url)


async def test_a_client_with_keys_signs() -> None:
    key = ECKey.generate_key("P-256").as_dict(private=False)
    client = await directory(ConfiguredClient(id="signs", redirect_uris=("https://a.example/",), keys=(key,))).find(
        "signs"
    )
    assert client.authentication == "private_key_jwt"
    assert client.keys == (key,)


@pytest.mark.parametrize(
    ("client", "says"),
    [
        (ConfiguredClient(id="a b", redirect_uris=("https://a.example/",)), "has to be ASCII without spaces"),
        (ConfiguredClient(id="registered.a", redirect_uris=("https://a.example/",)), "must not begin with registered"),
        (ConfiguredClient(id="a", redirect_uris=("http://a.example/",)), "only loopback addresses and localhost can"),
        (ConfiguredClient(id="a", redirect_uris=("https://a.example/#x",)), "a fragment"),
        (
            ConfiguredClient(id="a", redirect_uris=("https://a.example/",), keys=({"kty": "oct", "k": "AA"},)),
            "a: keys has a private or shared key",
        ),
        (
            ConfiguredClient(id="a", redirect_uris=("https://a.example/",), keys=({},), secret_sha256=SECRET),
            "has secretSha256 and keys: leave one of them out",
        ),
    ],
)
def test_a_client_of_the_settings_that_cannot_be_used_is_refused_at_the_start(
    client: ConfiguredClient, says: str
) -> None:
    with pytest.raises(BadSetting, match=says):
        configured_clients([client], {})
