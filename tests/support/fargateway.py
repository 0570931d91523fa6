"""A gateway that other gateways have as a server, and the identity provider of both, the npm package `oidc-provider`.

    async with far_gateway(tmp_path, near) as far:          # near: URL of the other gateway
        async with far.running(assertions=["corp"]):
            ...                                             # far.url, far.provider

All users may access it, but only those in the group staff may call its tool.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from authorizationworld import gateway_of, identity_file
from dexworld import STAFF_ALONE
from fairlead_authorization.clients.fetching import Fetch
from ports import free_port
from tokenproviders import CLIENT, TokenProvider, oidc_provider
from toolservers import modern_server, tool

TOOL: Final = "shop__buy"
BOUGHT: Final = '{"item":"tea"}'
"""Text of the tool's answer to a call for tea."""
REFUSED: Final = "the server answered with error -32602: Unknown tool: shop__buy"
"""Error for a user whom no policy allows to call the tool, as the other gateway passes it on."""
SECRET_THERE: Final = "the secret of the near gateway at the far one"
"""Secret of the other gateway's client, whose id is that of its client at the provider."""
_STAFF: Final = ("alice", "carol", "dave")
_OTHERS: Final = ("bob",)


@dataclass(frozen=True)
class FarGateway:
    """The gateway's parts; it answers while `running`."""

    folder: Path
    provider: TokenProvider
    port: int
    shop: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.asynccontextmanager
    async def running(
        self, *issuers: dict[str, Any], client_documents: Fetch | None = None, **server: Any
    ) -> AsyncIterator[None]:
        """Run the gateway. `issuers`: accepted in addition to the provider, which is named `corp`. Keywords are members
        of `authorizationServer`.
        """
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
        settings: dict[str, Any] = {"port": self.port, "shop": self.shop, "client_documents": client_documents}
        async with gateway_of(folder, file, STAFF_ALONE, **settings):
            yield


@contextlib.asynccontextmanager
async def far_gateway(folder: Path, near: str, callbacks: Sequence[str] = ()) -> AsyncIterator[FarGateway]:
    """`near`: URL of the other gateway, which is the audience of users' tokens; `callbacks`: its redirect URIs."""
    port = free_port()
    people = {person: [f"http://127.0.0.1:{port}"] for person in (*_STAFF, *_OTHERS)}
    async with (
        oidc_provider(folder, gateway=near, resources=[], grants=people, callbacks=callbacks) as provider,
        modern_server([tool("buy")]) as shop,
    ):
        await provider.mark(groups={person: ["staff"] for person in _STAFF})
        yield FarGateway(folder, provider, port, shop.url)
