"""An identity assertion (ID-JAG) that the npm package `oidc-provider` issued, exchanged at the gateway."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from authorizationworld import gateway_of, identity_file
from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import (
    ID_JAG as PROFILE,
)
from fairlead_api.documents.oauth import (
    TOKEN_EXCHANGE as GRANT,
)
from fairlead_api.documents.oauth import (
    OAuthSettings,
    ResourceClientSettings,
)
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.oauth.errors import INVALID_CLIENT, INVALID_TARGET, GrantFailed
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_source import TokenSource
from ports import free_port
from tokenproviders import CLIENT, SECRET, TOKEN_EXCHANGE, TokenProvider, oidc_provider

ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
IDP_CLIENT = "fairlead-post"
"""Client of the provider that sends its secret in the form, and has the same id at the gateway."""


async def post_form(url: str, **fields: str) -> tuple[int, dict[str, Any]]:
    """Post a form. Returns status and members of the answer."""
    async with aiohttp.ClientSession() as session, session.post(url, data=fields) as answer:
        return answer.status, await answer.json()


async def assertion(provider: TokenProvider, subject: str, audience: str, resource: str) -> dict[str, Any]:
    """The provider's answer to the first exchange."""
    fields = {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": ID_JAG,
        "subject_token": subject,
        "subject_token_type": ACCESS_TOKEN,
        "audience": audience,
        "resource": resource,
        "client_id": IDP_CLIENT,
        "client_secret": SECRET,
    }
    status, content = await post_form(f"{provider.base}/token", **fields)
    assert status == 200, content
    return content


async def test_client_gets_in_by_an_assertion_of_the_provider_alone(tmp_path: Path) -> None:
    port = free_port()
    here = f"http://127.0.0.1:{port}"
    async with oidc_provider(tmp_path, gateway=here, resources=[], grants={"alice": [here]}) as provider:
        clients = [
            {
                "id": IDP_CLIENT,
                "redirectUris": ["https://desk.example/cb"],
                "secretSha256": hashlib.sha256(SECRET.encode()).hexdigest(),
            }
        ]
        issuers = [{"issuer": provider.issuer, "name": "corp"}]
        file = identity_file(
            tmp_path,
            issuers,
            [{"issuer": "corp", "clientId": CLIENT}],
            more_clients=clients,
            assertions=["corp"],
            agents={"desks": IDP_CLIENT},
        )
        async with gateway_of(tmp_path, file, port=port) as (base, gateway):
            subject = await provider.sign_in("alice")
            first = await assertion(provider, subject, base, f"{base}/mcp")
            assert (first["token_type"], first["issued_token_type"]) == ("N_A", ID_JAG)
            fields = {"grant_type": JWT_BEARER, "client_id": IDP_CLIENT, "client_secret": SECRET}
            status, content = await post_form(f"{base}/oauth/token", assertion=first["access_token"], **fields)
            assert status == 200, content
            identity = await gateway.endpoint.identities.identify(f"Bearer {content['access_token']}".encode())
            assert getattr(identity, "principal", identity) == f"jwt:{provider.issuer}#alice/desks"
            assert getattr(identity, "resource", "") == "/mcp"
            assert getattr(identity, "person", b"") == f"jwt:{provider.issuer}#alice".encode()
            status, content = await post_form(f"{base}/oauth/token", assertion=first["access_token"], **fields)
            assert (status, content["error"]) == (400, "invalid_grant")


async def test_a_gateway_gets_a_persons_token_of_another_one_by_an_assertion_of_the_provider(tmp_path: Path) -> None:
    port = free_port()
    here = f"http://127.0.0.1:{port}"
    async with oidc_provider(tmp_path, gateway=here, resources=[], grants={"alice": [here]}) as provider:
        secret = hashlib.sha256(SECRET.encode()).hexdigest()
        clients = [{"id": IDP_CLIENT, "redirectUris": ["https://desk.example/cb"], "secretSha256": secret}]
        file = identity_file(
            tmp_path,
            [{"issuer": provider.issuer, "name": "corp"}],
            [{"issuer": "corp", "clientId": CLIENT}],
            more_clients=clients,
            assertions=["corp"],
            agents={"desks": IDP_CLIENT},
        )
        async with gateway_of(tmp_path, file, port=port) as (base, gateway):
            settings = OAuthSettings(
                grant=GRANT,
                profile=PROFILE,
                client_id=IDP_CLIENT,
                client_authentication="client_secret_post",
                issuer=provider.issuer,
                resource_client=ResourceClientSettings(
                    client_id=IDP_CLIENT, client_authentication="client_secret_post", issuer=base
                ),
            )
            credential = Credential(client_secret=SECRET, resource_client_secret=SECRET)
            access = TokenAccess(server_url=f"{base}/mcp", resolve=resolve_by_dns)
            source = TokenSource(settings, credential, access)
            subject = TokenSubject(b"alice", await provider.sign_in("alice"), time.time() + 600)
            token, *others = await asyncio.gather(*(source.obtain(subject) for _ in range(20)))
            assert all(other is token for other in others)
            assert len(provider.token_events()) == 1
            assert source.find_cached(subject) is token
            identity = await gateway.endpoint.identities.identify(token.header_line[15:].strip())
            assert getattr(identity, "person", b"") == f"jwt:{provider.issuer}#alice".encode()
            assert getattr(identity, "resource", "") == "/mcp"
            bob = TokenSubject(b"bob", await provider.sign_in("bob"), time.time() + 600)
            with pytest.raises(GrantFailed, match="step 1 of 2") as failed:
                await source.obtain(bob)
            assert failed.value.cause == INVALID_TARGET
            await source.aclose()
            wrong = TokenSource(settings, Credential(client_secret=SECRET, resource_client_secret="wrong"), access)
            with pytest.raises(GrantFailed, match="step 2 of 2") as failed:
                await wrong.obtain(subject)
            assert failed.value.cause == INVALID_CLIENT
            assert subject.token not in str(failed.value)
            await wrong.aclose()
