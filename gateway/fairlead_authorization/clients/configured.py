"""Clients that the settings name. Pure module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead_api.bad_setting import BadSetting
from fairlead_authorization.clients.client import Authentication, RegisteredClient
from fairlead_authorization.clients.documents import client_digest, display_name
from fairlead_authorization.clients.key_sets import BadKeySet, thumbprint, usable_keys
from fairlead_authorization.clients.redirects import redirect_problem
from fairlead_authorization.clients.registration import ID_PREFIX
from fairlead_gateway.identity.authorization_server import ConfiguredClient

_ID: Final = re.compile(r"[\x21-\x7e]{1,1024}")
"""Pattern of client ids (RFC 6749 appendix A.1), without spaces."""


def configured_clients(clients: Iterable[ConfiguredClient], agents: Mapping[str, str]) -> dict[str, RegisteredClient]:
    """Configured clients by id. `agents` has the agent names by client id; by default, the agent name is the id.

    Raises BadSetting.
    """
    return {client.id: _check_client(client, agents.get(client.id, client.id)) for client in clients}


def _check_client(client: ConfiguredClient, agent: str) -> RegisteredClient:
    entry = f"clients of authorizationServer: {client.id[:80]}"
    if not _ID.fullmatch(client.id) or client.id.startswith(ID_PREFIX):
        raise BadSetting(
            f"{entry} is not a valid id: it has to be ASCII without spaces, and must not begin with {ID_PREFIX}, as "
            "ids of registered clients do"
        )
    for uri in client.redirect_uris:
        if problem := redirect_problem(uri):
            raise BadSetting(f"{entry}: the redirect URI {uri[:200]!r} {problem}")
    authentication: Authentication = "client_secret_basic" if client.secret_sha256 else "none"
    keys = client.keys
    if keys:
        if client.secret_sha256:
            raise BadSetting(f"{entry} has secretSha256 and keys: leave one of them out")
        try:
            keys = usable_keys(keys)
        except BadKeySet as error:
            raise BadSetting(f"{entry}: keys {error}") from None
        authentication = "private_key_jwt"
    return RegisteredClient(
        id=client.id,
        kind="configured",
        name=display_name(client.name) or client.id[:80],
        redirect_uris=client.redirect_uris,
        agent=agent,
        authentication=authentication,
        secret_sha256=client.secret_sha256,
        keys=keys,
        is_named=True,
        # the digest does not include the secret: the administrator vouches that the client stays the same
        digest=client_digest(client.redirect_uris, authentication, map(thumbprint, keys)),
    )
