"""The page `/console/connect`: configuration of MCP clients, and API keys of the visitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_api.client_files.edits import with_entry
from fairlead_api.client_files.known_clients import CLIENTS, KnownClient
from fairlead_console.context import ConsoleContext, NavigationEntry, Visit
from fairlead_console.html import redirect
from fairlead_console.rest_client import RestProblem
from fairlead_offers.problems import REFUSED
from fairlead_rest.resources.keys import DEFAULT_DAYS, KeyFacts, KeyList, KeyRequest, MadeKey
from fairlead_rest.resources.servers import ServerList
from fairlead_rest.resources.tiers import TierList

PATH: Final = "/console/connect"
ENTRY: Final = NavigationEntry("Connect", PATH, 80)
NAME: Final = "fairlead"
"""Name of the gateway in a client's configuration."""
KEY_VARIABLE: Final = "FAIRLEAD_TOKEN"
"""Environment variable with the key, so that configuration files do not contain it."""
KEY_FILE: Final = "~/fairlead.key"
"""File with the key, for clients that do not read environment variables."""
_MERGED: Final = "/mcp"
_ROUTER: Final = "/router/mcp"


class ClientSnippet(msgspec.Struct, frozen=True):
    """Configuration snippet for one MCP client."""

    key: str
    """Name of the client on the command line."""
    title: str
    files: tuple[tuple[str, str], ...]
    """Scope and path of each configuration file of the client."""
    text: str
    """Content of a configuration file with this gateway only."""
    command: str
    """Command that writes the file."""
    restart: str


class OfferedEndpoint(msgspec.Struct, frozen=True):
    """MCP endpoint of the gateway, with a description."""

    path: str
    description: str


def router(console: ConsoleContext) -> APIRouter:
    """Make the routes of the page."""
    routes = APIRouter()

    async def connect_page(
        visit: Visit, request: Request, made_key: MadeKey | None = None, why: str = "", status: int = 200
    ) -> Response:
        """Make the page, with a key that was just made, or the reason `why` it was refused."""
        tiers, servers = await visit.api.get("/v1/tiers", TierList), await visit.api.get("/v1/servers", ServerList)
        endpoints = endpoints_of(tiers, servers)
        path = request.query_params.get("endpoint", _MERGED)
        endpoint_path = path if path in {endpoint.path for endpoint in endpoints} else _MERGED
        base = str(request.base_url).rstrip("/")
        keyed = not console.rest.guard.identities.open
        keys = await visit.api.get("/v1/keys", KeyList) if console.rest.makes_keys(visit.identity) else None
        return await visit.page(
            "connect/connect.html",
            status,
            keys=keys,
            made_key=made_key,
            why=why,
            default_days=DEFAULT_DAYS,
            revoked=request.query_params.get("revoked") == "1",
            endpoints=endpoints,
            chosen=endpoint_path,
            url=base + endpoint_path,
            base=base,
            keyed=keyed,
            variable=KEY_VARIABLE,
            key_file=KEY_FILE,
            clients=client_snippets(base + endpoint_path, keyed=keyed, program=console.program),
        )

    @routes.get(PATH)
    async def connect(request: Request) -> Response:
        return await connect_page(console.visit(request), request)

    @routes.post(PATH + "/keys")
    async def make_key(request: Request) -> Response:
        visit = console.visit(request)
        fields = await visit.form()
        days = fields.get("days", "")
        key_request = KeyRequest(fields.get("name", ""), int(days) if days.isdecimal() and len(days) < 6 else 0)
        try:
            made_key = await visit.api.post("/v1/keys", key_request, MadeKey)
        except RestProblem as problem:
            if problem.document.code != REFUSED:
                raise
            return await connect_page(visit, request, None, problem.document.detail, problem.document.status)
        # no redirect, as the key would have to be stored until the next request
        return await connect_page(visit, request, made_key)

    @routes.post(PATH + "/keys/revoke")
    async def revoke_key(request: Request) -> Response:
        visit = console.visit(request)
        ident = (await visit.form()).get("id", "")
        await visit.api.delete(f"/v1/keys/{quote(ident, safe='')}", KeyFacts)
        return redirect(f"{PATH}?revoked=1")

    return routes


def endpoints_of(tiers: TierList, servers: ServerList) -> list[OfferedEndpoint]:
    """List the endpoints: all tools, each tier, the search over all tools, each server."""
    endpoints = [OfferedEndpoint(_MERGED, "all tools of your default list")]
    endpoints += [OfferedEndpoint(tier.endpoint, f"tools of the tier {tier.name}") for tier in tiers.tiers]
    endpoints.append(OfferedEndpoint(_ROUTER, "three tools that search and call all other tools, for long lists"))
    return endpoints + [
        OfferedEndpoint(server.endpoint, f"only tools of {server.server}") for server in servers.servers[:200]
    ]


def client_snippets(url: str, *, keyed: bool, program: Sequence[str]) -> list[ClientSnippet]:
    """Make a snippet for each known client, in the order of the table. `program` is the command line of `fairlead`."""
    return [_snippet(name, client, url, program, keyed=keyed) for name, client in CLIENTS.items()]


def _snippet(name: str, client: KnownClient, url: str, program: Sequence[str], *, keyed: bool) -> ClientSnippet:
    variable = KEY_VARIABLE if keyed and client.reads_variables else None
    file = KEY_FILE if keyed and not client.reads_variables else None
    option = f" --key-env {variable}" if variable else f" --key-file {file}" if file else ""
    files = (("project", client.project), ("user", f"~/{client.user}"))
    return ClientSnippet(
        name,
        client.title,
        tuple((scope, path) for scope, path in files if path is not None),
        with_entry("", client.member, NAME, client.entry_for(url, variable, file, program), client.form),
        f"fairlead client setup {name} --url {url}{option}",
        client.restart,
    )
