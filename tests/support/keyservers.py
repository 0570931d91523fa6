"""Servers that each user calls with a personal key: over HTTP, and as a process with the key in its environment.

async with key_server({"alice-key": "alice"}) as server:
    keyed = key_catalog(server.url)          # header X-Api-Key
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fairlead_api.documents.catalog import Catalog, ChildEndpoint, TcpEndpoint
from fairlead_api.documents.oauth import USER_KEY, OAuthSettings, UserKeySettings
from gated_stdio_server import CREDENTIAL, Gated, gated, write_token
from gatewayworld import LEGACY, MODERN, catalog
from rawserver import RawServer, Reply, Request, raw_server

HEADER: Final = "X-Api-Key"
VARIABLE: Final = "DEMO_KEY"
PROCESS: Final = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        told = {"name": "keyed", "version": "1"}
        version = "2025-11-25"
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": told}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "ping":
        result = {}
    elif message["method"] != "tools/call":
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    else:
        print("called with", os.environ.get(sys.argv[1]), file=sys.stderr, flush=True)
        text = f"{os.environ.get(sys.argv[1])} {os.getpid()}"
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""An MCP server whose tool returns its process id and the key in the environment variable that the program's first
argument names. It also prints the key to its log.
"""


@asynccontextmanager
async def key_server(persons: dict[str, str]) -> AsyncIterator[RawServer]:
    """A server whose tool returns the owner of the key in a call. Any other key is refused and quoted in the
    refusal.
    """

    async def serve(request: Request, reply: Reply) -> None:
        key = request.headers.get(HEADER.lower(), "").removeprefix("Token ")
        if key not in persons:
            reply.send(401, f"the key {key} is unknown".encode(), kind="text/plain")
        elif request.method == "server/discover":
            told = {"name": "keyed", "version": "1"}
            versions = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "serverInfo": told}
            reply.result(request, {"resultType": "complete", **versions})
        elif request.method == "tools/list":
            tools = [{"name": f"of_{persons[key]}", "inputSchema": {"type": "object"}}]
            reply.result(request, {"resultType": "complete", "tools": tools, "ttlMs": 1, "cacheScope": "private"})
        else:
            content = [{"type": "text", "text": persons[key]}]
            reply.result(request, {"resultType": "complete", "content": content})

    async with raw_server(serve) as server:
        yield server


def key_settings(key: Mapping[str, Any] | None = None, **more: Any) -> OAuthSettings:
    return OAuthSettings(grant=USER_KEY, user_key=UserKeySettings(**{"header": HEADER, **(key or {})}), **more)


def key_catalog(url: str, name: str = "keyed", key: Mapping[str, Any] | None = None, **more: Any) -> Catalog:
    """A server that is called with a key of each user in the header X-Api-Key."""
    oauth = {name: more.pop(name) for name in ("first_grant", "listing_interval_s") if name in more}
    return catalog(name, url, ["whoami"], oauth=key_settings(key, **oauth), version=MODERN, **more)


@asynccontextmanager
async def pod_catalog(folder: Path, name: str = "keyed") -> AsyncIterator[tuple[Gated, Catalog]]:
    """A pod whose processes have a user's key in their environment, and its catalog."""
    script = folder / "keyed_server.py"
    script.write_text(PROCESS)
    write_token(folder)
    async with gated(str(script), VARIABLE, key_variable=VARIABLE, program="1") as pod:
        yield pod, keyed_pod(pod, name)


def keyed_pod(pod: Gated, name: str = "keyed", program: str = "1") -> Catalog:
    """Catalog of a pod; `program` is the digest of its program."""
    endpoint = TcpEndpoint(host="127.0.0.1", port=pod.port, program="keyed", program_digest=program)
    oauth = OAuthSettings(grant=USER_KEY, user_key=UserKeySettings(env=VARIABLE))
    return catalog(name, endpoint, ["whoami"], oauth=oauth, version=LEGACY, session="PerClient", credential=CREDENTIAL)


def process_catalog(folder: Path, name: str = "keyed", *words: str, variable: str = VARIABLE, **more: Any) -> Catalog:
    """Catalog of a server whose processes have a user's key in their environment."""
    script = folder / "keyed_server.py"
    script.write_text(PROCESS)
    endpoint = ChildEndpoint(command=sys.executable, args=(str(script), variable, *words))
    oauth = OAuthSettings(grant=USER_KEY, user_key=UserKeySettings(env=variable))
    return catalog(name, endpoint, ["whoami"], oauth=oauth, version=LEGACY, session="PerClient", **more)
