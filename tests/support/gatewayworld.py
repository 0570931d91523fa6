"""A gateway in this loop over documents that a test writes, and a client whose every byte a test decides.

async with running(tmp_path, catalog("demo", url, ["add"])) as gateway:
    async with await Wire.connect(gateway) as wire:
        answer = await wire.ask(modern("tools/call", {"name": "demo__add", "arguments": {}}))
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, cast

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Endpoint, HttpEndpoint, Limits, ToolEntry
from fairlead_api.documents.codec import RULES_NAME, SERVERS_NAME, Document, catalog_name, encode, pins_name, state_name
from fairlead_api.documents.pins import Pins
from fairlead_api.documents.servers import Servers
from fairlead_api.documents.state import State
from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import NO_TRUST, CatalogFeed, Runtime, compose
from fairlead_app.configuration import Models
from fairlead_app.configured_models import ConfiguredModels
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_gateway.catalog.pins import DirectoryPins
from rawserver import RawServer
from toolservers import tool
from waiting import eventually

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"


def entry(definition: str | bytes | Mapping[str, Any], **more: Any) -> ToolEntry:
    """A tool of a catalog: by name, or with its definition as an object or as bytes."""
    if isinstance(definition, str):
        definition = tool(definition)
    raw = definition if isinstance(definition, bytes) else json.dumps(definition).encode()
    return ToolEntry(name=json.loads(raw)["name"], definition=Raw(raw), hash="", search_hash="", **more)


def catalog(
    name: str,
    reached: str | Endpoint,
    tools: Sequence[str | bytes | Mapping[str, Any] | ToolEntry] = (),
    *,
    version: str = MODERN,
    namespace: str = "default",
    **more: Any,
) -> Catalog:
    """A catalog, whose prefix is by default its name. `reached` is a URL or an endpoint."""
    more.setdefault("prefix", name)
    more.setdefault("server_info", Raw(b'{"name":"raw","version":"1"}'))
    return Catalog(
        namespace=namespace,
        name=name,
        uid="",
        generation=1,
        endpoint=HttpEndpoint(url=reached) if isinstance(reached, str) else reached,
        protocol_version=version,
        tools=tuple(given if isinstance(given, ToolEntry) else entry(given) for given in tools),
        **more,
    )


def publish(directory: Path, *documents: Document) -> None:
    """Store documents as the operator does off a cluster: each file is replaced by renaming."""
    directory.mkdir(exist_ok=True)
    for document in documents:
        name = _name(document)
        temporary = directory / f".{name}.tmp"
        temporary.write_bytes(encode(document))
        temporary.replace(directory / f"{name}.json")


def _name(document: Document) -> str:
    if isinstance(document, Catalog):
        return catalog_name(document.key)
    if isinstance(document, Pins):
        return pins_name(document.key)
    if isinstance(document, State):
        return state_name(document.shard)
    return SERVERS_NAME if isinstance(document, Servers) else RULES_NAME


def withdraw(directory: Path, document: Catalog) -> None:
    (directory / f"{catalog_name(document.key)}.json").unlink()


class Clock:
    """The gateway's clock, which a test can advance. In between it runs like the clock of the connections'
    deadlines.
    """

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead

    def forward(self, seconds: float) -> None:
        self._ahead += seconds


def limits(**values: Any) -> Limits:
    return Limits(**values)


@contextlib.asynccontextmanager
async def running(
    folder: Path, *documents: Document, nudge: asyncio.Event | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """A gateway on free ports that serves `documents` from `folder`/documents. Other keywords are settings. By default,
    searches are ranked by words only, whatever is installed.
    """

    def take(*names: str) -> dict[str, Any]:
        return {name: settings.pop(name) for name in names if name in settings}

    directory = folder / "documents"
    directory.mkdir(exist_ok=True)
    publish(directory, *documents)
    source = DirectorySource(directory, nudge=nudge)
    catalog = CatalogFeed(source=source, pins=DirectoryPins(directory), **take("closed"))
    servers = ServerAccess(
        credentials=DirectoryCredentials(folder / "credentials"),
        **take("children", "shared_children", "resolve", "custom"),
    )
    runtime = Runtime(**take("clock", "heap", "kube", "client_documents"))
    trust = msgspec.structs.replace(settings.pop("trust", NO_TRUST), **take("console_token"))
    models = settings.pop("models", None)
    gateway = compose(
        Settings.of(**{"port": 0, "metrics_port": 0, "grace": 2.0, "embedder": "none", **settings}),
        catalog,
        servers,
        models=ConfiguredModels(models) if isinstance(models, Models) else models,
        trust=trust,
        runtime=runtime,
    )
    await gateway.start()
    try:
        await asyncio.wait_for(gateway.snapshots.first_snapshot.wait(), 10)
        yield gateway
    finally:
        await gateway.stop(0.5)


async def wait_for_requests(server: RawServer, requests: int) -> None:
    """Wait until the server has seen that many requests."""
    await eventually(lambda: len(server.seen) >= requests)


async def wait_for_snapshots(gateway: Gateway, swaps: int) -> None:
    """Wait until the gateway has taken `swaps` snapshots into service."""
    await eventually(lambda: gateway.snapshots.swaps >= swaps)


@dataclass(frozen=True)
class Ask:
    """An HTTP request to be written: a JSON-RPC message, or any body."""

    message: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    verb: str = "POST"
    target: str = "/mcp"
    version: str = "1.1"

    def to(self, target: str) -> Ask:
        return Ask(self.message, self.headers, self.body, self.verb, target, self.version)

    def with_headers(self, **headers: str | None) -> Ask:
        """Headers replaced, or left out where None; underscores become hyphens."""
        merged: dict[str, str | None] = {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        present = {name: value for name, value in merged.items() if value is not None}
        return Ask(self.message, present, self.body, self.verb, self.target, self.version)

    def data(self, host: str) -> bytes:
        body = self.body if self.body is not None else json.dumps(self.message).encode()
        headers = {"host": host, "content-length": str(len(body)), **self.headers}
        lines = [f"{self.verb} {self.target} HTTP/{self.version}", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def chunked_head(self, host: str) -> bytes:
        """Only the head of a request with a chunked body."""
        headers = {"host": host, "transfer-encoding": "chunked", **self.headers}
        lines = [f"{self.verb} {self.target} HTTP/{self.version}", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode()


BOTH = "application/json, text/event-stream"


def modern(method: str, params: Mapping[str, Any] | None = None, *, number: Any = 1, **meta: Any) -> Ask:
    """A complete request of 2026-07-28. `meta` is added to `_meta`."""
    identity = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    message = {
        "jsonrpc": "2.0",
        "id": number,
        "method": method,
        "params": {**(params or {}), "_meta": {**identity, **meta}},
    }
    headers = {"content-type": "application/json", "accept": BOTH, "mcp-protocol-version": MODERN, "mcp-method": method}
    if method == "tools/call" and params and "name" in params:
        headers["mcp-name"] = str(params["name"])
    return Ask(message, headers)


def legacy(method: str, params: Mapping[str, Any] | None = None, *, number: Any = 1, session: str | None = None) -> Ask:
    """A request of 2025-11-25; with `number` None a notification."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        message["id"] = number
    if params is not None:
        message["params"] = dict(params)
    headers = {"content-type": "application/json", "accept": BOTH, "mcp-protocol-version": LEGACY}
    if session is not None:
        headers["mcp-session-id"] = session
    return Ask(message, headers)


def calling(
    name: str, arguments: Mapping[str, Any] | None = None, *, era: str = MODERN, number: Any = 1, **more: Any
) -> Ask:
    """A `tools/call` in either era."""
    params = {"name": name, "arguments": dict(arguments or {})}
    return (
        modern("tools/call", params, number=number, **more)
        if era == MODERN
        else legacy("tools/call", params, number=number, **more)
    )


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, or a stream with all its events."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The messages of an event stream, without events that have no data."""
        data = (block.partition(b"data: ")[2].strip() for block in self.body.split(b"\n\n"))
        return [json.loads(message) for message in data if message]

    @property
    def code(self) -> int:
        return int(self.message["error"]["code"])

    @property
    def refusal(self) -> str:
        """Code of the refusal in the result of a call."""
        result = self.message["result"]
        assert result["isError"] is True
        return str(result["_meta"]["fairlead.dev/error"]["code"])


class Reachable(Protocol):
    """A gateway, in this process or in another."""

    @property
    def port(self) -> int: ...


async def scrape(gateway: Gateway, path: str = "/metrics") -> str:
    """Answer of the port for metrics; empty if the path does not exist."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
    with contextlib.closing(writer):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(20):
            answer = await reader.read()
    return answer.partition(b"\r\n\r\n")[2].decode()


class Wire:
    """One connection to a gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self.reader = reader
        self.writer = writer
        self.host = host

    @classmethod
    async def connect(cls, gateway: Reachable, *, opened: socket.socket | None = None) -> Self:
        """Connect to a gateway, over the socket `opened` if it is given."""
        own = opened or socket.socket()
        own.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", gateway.port))
        except BaseException:  # also where a test gives up
            own.close()
            raise
        reader, writer = await asyncio.open_connection(sock=own, limit=64 << 20)
        return cls(reader, writer, f"127.0.0.1:{gateway.port}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.writer.close()

    @property
    def transport(self) -> asyncio.Transport:
        """Transport of the connection, with which a test can pause and resume reading."""
        return cast("asyncio.Transport", self.writer.transport)

    def send(self, *asks: Ask) -> None:
        self.write(b"".join(ask.data(self.host) for ask in asks))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(self, ask: Ask) -> Answer:
        self.send(ask)
        return await self.answer()

    async def answer(self, seconds: float = 30) -> Answer:
        """Wait for the next answer. Raises asyncio.IncompleteReadError if the gateway closes the connection instead."""
        async with asyncio.timeout(seconds):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            status = int(head[0].split(" ")[1])
            if headers.get("transfer-encoding") == "chunked":
                return Answer(status, headers, await self._chunks())
            return Answer(status, headers, await self.reader.readexactly(int(headers.get("content-length", "0"))))

    async def read_to_end(self, seconds: float = 30) -> bytes:
        """Bytes until the gateway closes the connection."""
        async with asyncio.timeout(seconds):
            return await self.reader.read()

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return body


async def ask(gateway: Reachable, request: Ask) -> Answer:
    """Send one request on a new connection, and return the answer."""
    async with await Wire.connect(gateway) as wire:
        return await wire.ask(request)
