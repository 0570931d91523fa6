"""An `mcp.json` with token grants, without a cluster: lists with a token, grants in the catalog, no secret in
documents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fairlead_api.documents.catalog import Catalog, Credential
from fairlead_api.documents.codec import catalog_name, decode
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE
from fairlead_api.load import ManifestProblem
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.common import Condition, Resource
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_mcp.host import ChildHost
from fairlead_operator.local.installers import Tools
from fairlead_operator.local.localoperator import Folders, LocalObserver, LocalOperator, LocalOptions
from fairlead_operator.local.sources import Sources
from fairlead_operator.ports import Announcement
from rawserver import raw_server
from token_protected_server import TokenProtectedServer
from tokenendpoint import CLIENT, SECRET, TokenEndpoint, token_endpoint
from waiting import until_async

KEY = ServerKey("default", "tools")


@dataclass
class Statuses:
    """StatusObserver that records all reports."""

    ready: dict[ServerKey, Condition | None] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def on_status(self, server: McpServer, status: McpServerStatus) -> None:
        self.ready[server.key] = status.condition(ConditionType.READY)
        self.told.append(status.model_dump_json())

    def on_announcement(self, resource: Resource, announcement: Announcement) -> None:
        self.told.append(announcement.note)

    def on_removal(self, key: ServerKey) -> None:
        self.ready.pop(key, None)


@dataclass
class Laptop:
    """A running operator of one machine, with its folder and its reports."""

    folder: Path
    operator: LocalOperator
    statuses: Statuses
    problems: list[ManifestProblem]

    async def is_ready(self, status: str, message: str = "") -> bool:
        ready = self.statuses.ready.get(KEY)
        return ready is not None and ready.status == status and message in ready.message

    async def catalog(self) -> Catalog:
        data = await self.operator.documents.read(catalog_name(KEY))
        assert data is not None
        catalog = decode(data)
        assert isinstance(catalog, Catalog)
        return catalog

    def credentials(self) -> list[Credential]:
        """Credentials that the gateway finds."""
        texts = [path.read_bytes() for path in (self.folder / "credentials").rglob("*") if path.is_file()]
        return [msgspec.json.decode(text, type=Credential) for text in texts]

    def documents(self) -> str:
        return "".join(path.read_text() for path in (self.folder / "documents").rglob("*") if path.is_file())


@asynccontextmanager
async def laptop(folder: Path, url: str, own: dict[str, Any], environ: dict[str, str]) -> AsyncIterator[Laptop]:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"tools": {"url": url, "fairlead": own}}}))
    statuses, problems, host = Statuses(), list[ManifestProblem](), ChildHost()
    operator = LocalOperator(
        Sources([file], environ),
        Folders(folder / "documents", folder / "credentials", folder / "packages"),
        host,
        Tools(),
        LocalObserver(statuses=statuses, problems=problems.extend),
        LocalOptions(environ=environ),
    )
    operator.scan()
    task = asyncio.create_task(operator.run())
    try:
        yield Laptop(folder, operator, statuses, problems)
    finally:
        task.cancel()
        await asyncio.wait([task])
        await host.aclose()


def client(provider: TokenEndpoint, **members: str) -> dict[str, Any]:
    return {"tokenURL": provider.token_url, "clientID": CLIENT, "secret": "${CLIENT_SECRET}", **members}


async def test_a_server_is_listed_with_a_token_of_fairlead_itself(tmp_path: Path) -> None:
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server:
        own = {"auth": {"clientCredentials": client(provider)}}
        async with laptop(tmp_path, server.url, own, {"CLIENT_SECRET": SECRET}) as here:
            await until_async("Ready", lambda: here.is_ready("True"))
            oauth = (await here.catalog()).oauth
            assert oauth is not None
            assert oauth.grant == CLIENT_CREDENTIALS
            assert here.credentials() == [Credential(client_secret=SECRET)]
            told = here.documents() + "".join(here.statuses.told)
            assert here.problems == []
    assert [text for text in (SECRET, *(grant.token for grant in provider.grants)) if text in told] == []


async def test_lists_need_a_credential_of_their_own_where_calls_go_as_a_person(tmp_path: Path) -> None:
    async with token_endpoint() as provider, raw_server(TokenProtectedServer(provider)) as server:
        exchange = {"tokenExchange": client(provider)}
        environ = {"CLIENT_SECRET": SECRET}
        async with laptop(tmp_path, server.url, {"auth": exchange}, environ) as here:
            await until_async("refused", lambda: here.is_ready("False", "in fairlead.discovery.auth"))
            assert provider.requests == []

        lists = {"auth": {"clientCredentials": client(provider)}}
        async with laptop(tmp_path, server.url, {"auth": exchange, "discovery": lists}, environ) as here:
            await until_async("Ready", lambda: here.is_ready("True"))
            oauth = (await here.catalog()).oauth
            assert oauth is not None
            assert oauth.grant == TOKEN_EXCHANGE
