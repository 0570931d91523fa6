"""Gateways that are measured: their documents, their upstreams, and nginx as a plain hop beside them.

The world has the size for which the goals are stated: 100 servers with ten tools each, a decision on each tool's tiers,
100 policies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Definition, HttpEndpoint, ToolEntry, definition_hash, search_hash
from fairlead_api.documents.codec import RULES_NAME, catalog_name, encode, state_name
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_api.meta import ServerKey
from ports import free_port
from rig.harness import Unmeasurable
from rig.loadtools import built
from rig.processes import Stage

VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
ECHO = (
    b'{"name":"echo","description":"Echo the text back.","inputSchema":{"type":"object","properties":'
    b'{"text":{"type":"string","description":"What to echo"}},"required":["text"]}}'
)
PROMPT = "greet"
"""The prompt of each era's plain server."""
OWN = "own"
"""`ERA-own` is a server with `session: PerClient`."""
ALIKE = 40
"""Servers of an era that a client calls in turn: `legacy0` to `legacy39`."""
SERVERS = 100
TOOLS = 10
TOOL_BYTES = 700
STRICT = "strict"
"""The tool of each server whose schema has 30 keywords."""
STRICT_MEMBERS = {
    "limit": 25,
    "ratio": 0.5,
    "order": "descending",
    "since": "2026-11-21",
    "tags": [f"tag-{number:02d}" for number in range(40)],
    "filter": {"field": "owner", "values": ["a" * 40 for _ in range(30)], "negate": False},
    "page": {"size": 50, "token": "b" * 200},
}
"""Arguments of about 2 kB, beside the text."""
STRICT_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 4096},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "ratio": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "order": {"enum": ["ascending", "descending"]},
        "since": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        "tags": {"type": "array", "maxItems": 100, "uniqueItems": True, "items": {"type": "string", "maxLength": 40}},
        "filter": {
            "type": "object",
            "properties": {
                "field": {"const": "owner"},
                "values": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "negate": {"type": "boolean"},
            },
            "required": ["field", "values"],
            "additionalProperties": False,
        },
        "page": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}, "maxProperties": 4},
    },
    "required": ["text"],
    "additionalProperties": False,
}
NGINX = """worker_processes 1;
pid nginx.pid;
error_log stderr warn;
daemon off;
events { worker_connections 4096; multi_accept on; }
http {
  access_log off; keepalive_requests 100000000; keepalive_timeout 300s;
  client_body_buffer_size 64k;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
SERVERS
}
"""
NGINX_SERVER = """  upstream upNUMBER { BACKENDS keepalive 512; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:LISTEN backlog=2048;
    location / {
      proxy_pass http://upNUMBER; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host 127.0.0.1:FIRST;
      proxy_buffering on; proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k;
    }
  }
"""


@dataclass(frozen=True)
class Target:
    """Something that answers on `port`. `pid` is the root of the process tree whose time is counted."""

    name: str
    port: int
    pid: int
    prefixed: bool = False
    metrics: int = 0
    """Port of its metrics; 0 if it has none."""

    def tool(self, era: str) -> str:
        """Name of the echo tool at this target, for a client of `era`."""
        return f"{era}__echo" if self.prefixed else "echo"


def entry(name: str, definition: bytes) -> ToolEntry:
    """Tool entry in the form that the operator publishes."""
    return ToolEntry(
        name=name,
        definition=Raw(definition),
        hash=definition_hash(definition),
        search_hash=search_hash(name, definition),
    )


def catalog(
    era: str, port: int, *, name: str = "", tools: tuple[ToolEntry, ...] = (), session: str = "Shared"
) -> Catalog:
    """Catalog document of the echo server as a server of `era`. Its prefix is its name, by default the era."""
    prompt = b'{"name":"%b","arguments":[{"name":"text","required":true}]}' % PROMPT.encode()
    return Catalog(
        namespace="default",
        name=name or era,
        uid=f"bench-{name or era}",
        generation=1,
        prefix=name or era,
        endpoint=HttpEndpoint(url=f"http://127.0.0.1:{port}/mcp"),
        protocol_version=VERSIONS[era],
        capabilities=Raw(b'{"tools":{},"prompts":{}}'),
        session=session,
        tools=(entry("echo", ECHO), *tools),
        prompts=() if name else (Definition(name=PROMPT, definition=Raw(prompt), hash=definition_hash(prompt)),),
    )


def padded(name: str, revision: int = 0) -> ToolEntry:
    """A tool whose definition has TOOL_BYTES bytes, as those of real servers do on average."""
    definition = {
        "name": name,
        "description": f"Does what {name} does, revision {revision}. ",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "What to look for"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most"},
                "order": {"type": "string", "enum": ["ascending", "descending"]},
            },
            "required": ["text"],
        },
    }
    missing = TOOL_BYTES - len(msgspec.json.encode(definition))
    definition["description"] = str(definition["description"]) + "x" * missing
    return entry(name, msgspec.json.encode(definition))


def strict() -> ToolEntry:
    """The tool STRICT."""
    definition = {"name": STRICT, "description": "Echo the text back.", "inputSchema": STRICT_SCHEMA}
    return entry(STRICT, msgspec.json.encode(definition))


def world(ports: dict[str, int], tools: int = TOOLS, revision: int = 0) -> Iterator[Catalog]:
    """SERVERS servers with `tools` tools each. `ports` by kind of upstream: `plain` and others; per era a server named
    by it is plain and has a prompt, `ERA-KIND` is of that kind, `ERA-own` has sessions for each client, the rest is
    `ERA0` and so on.
    """
    own = tuple(padded(f"tool_{number}", revision) for number in range(tools - 2))
    named = [(era, kind) for kind in ports for era in VERSIONS]
    for era, kind in named:
        yield catalog(era, ports[kind], name="" if kind == "plain" else f"{era}-{kind}", tools=(strict(), *own))
    for era in VERSIONS:
        yield catalog(era, ports["plain"], name=f"{era}-{OWN}", tools=(strict(), *own), session="PerClient")
    for number in range((SERVERS - len(named)) // len(VERSIONS) - 1):
        for era in VERSIONS:
            yield catalog(era, ports["plain"], name=f"{era}{number}", tools=(strict(), *own))


def decisions(catalogs: Sequence[Catalog]) -> tuple[Rules, State]:
    """Three tiers and 100 policies, and for each tool what was measured and which tiers it fits."""
    tiers = (
        Tier(name="fast", max_latency_ms=200),
        Tier(name="normal", max_latency_ms=2000, default=True),
        Tier(name="patient"),
    )
    policies = tuple(
        Policy(
            namespace="default",
            name=f"policy-{number:02d}",
            servers=(catalogs[number % len(catalogs)].name,),
            subjects=(Subject(kind="Any"),),
            rules=(
                Rule(action="Deny", tools=("delete_*",)),
                Rule(action="Allow", annotations={"readOnlyHint": True}),
                Rule(action="Allow", tools=("*",)),
            ),
        )
        for number in range(100)
    )
    measured = Quantiles(p50_ms=2.0, p90_ms=3.0, p95_ms=4.0, p99_ms=9.0, samples=100)
    fits = tuple(tier.name for tier in tiers)
    servers = tuple(
        ServerState(
            namespace=catalog.namespace,
            name=catalog.name,
            tools=tuple(ToolState(name=tool.name, quantiles=measured, tiers=fits) for tool in catalog.tools),
        )
        for catalog in catalogs
    )
    return Rules(tiers=tiers, policies=policies), State(servers=servers, decided_at="2026-11-21T00:00:00Z")


def contents(catalogs: Sequence[Catalog], *, decided: bool = True) -> dict[str, bytes]:
    """Documents by name; with `decided` also the rules and the state."""
    documents = {catalog_name(ServerKey(each.namespace, each.name)): encode(each) for each in catalogs}
    if decided:
        rules, state = decisions(catalogs)
        documents |= {RULES_NAME: encode(rules), state_name(0): encode(state)}
    return documents


def write_documents(folder: Path, documents: dict[str, bytes]) -> None:
    """Write documents like the operator, replacing each atomically."""
    folder.mkdir(exist_ok=True)
    for name, data in documents.items():
        unfinished = folder / f".{name}"
        unfinished.write_bytes(data)
        unfinished.rename(folder / f"{name}.json")


def start_upstream(stage: Stage, name: str, core: int, *options: str) -> Target:
    """Start the echo server in C with `options` of its command line."""
    port = free_port()
    process = stage.start(name, [built("mcpup"), str(port), *options], core=core)
    stage.wait_listening(name, process, port)
    return Target(name, port, process.pid)


def start_nginx(stage: Stage, backends: Sequence[Sequence[int]], core: int | None, name: str = "nginx") -> list[Target]:
    """Start nginx with one worker and persistent connections on both sides, and one port for each group of backends.
    None if nginx is not installed.
    """
    if (program := shutil.which("nginx") or shutil.which("/usr/sbin/nginx")) is None:
        return []
    ports = [free_port() for _ in backends]
    servers = [
        NGINX_SERVER.replace("NUMBER", str(number))
        .replace("LISTEN", str(port))
        .replace("FIRST", str(group[0]))
        .replace("BACKENDS", " ".join(f"server 127.0.0.1:{backend};" for backend in group))
        for number, (port, group) in enumerate(zip(ports, backends, strict=True))
    ]
    config = stage.folder / f"{name}.conf"
    config.write_text(NGINX.replace("SERVERS", "".join(servers)).replace("nginx.pid", f"{name}.pid"))
    process = stage.start(name, [program, "-p", f"{stage.folder}/", "-e", "stderr", "-c", config], core=core)
    for port in ports:
        stage.wait_listening(name, process, port)
    return [Target(name, port, process.pid) for port in ports]


def start_gateway(stage: Stage, upstream: int, core: int, *more: str | Path) -> Target:
    """A gateway over one catalog document per era; `more` as for `gateway_over`."""
    documents = stage.folder / "documents"
    write_documents(documents, contents([catalog(era, upstream) for era in VERSIONS], decided=False))
    return gateway_over(stage, documents, core, *more)


def gateway_over(
    stage: Stage,
    documents: Path,
    core: int | None,
    *more: str | Path,
    name: str = "gateway",
    under: Sequence[str] = (),
    program: Sequence[str] = ("-m", "fairlead_app"),
    **variables: str,
) -> Target:
    """A gateway over a folder of documents, started as the chart does, at a free port unless `more` has one; `more` are
    options of `fairlead gateway` with their values, `under` are the words of a program that runs it, `program` are
    Python's words for the gateway, and `variables` come into its environment.
    """
    metrics = free_port()
    options = ["--documents", documents, "--port", str(free_port()), "--metrics-port", str(metrics), *more]
    pairs = zip(options[::2], options[1::2], strict=True)
    given = {f"FAIRLEAD_{str(option)[2:].replace('-', '_').upper()}": str(value) for option, value in pairs}
    port = int(given["FAIRLEAD_PORT"])
    environment = {**as_installed(stage.folder), **given, **variables}
    process = stage.start(name, [*under, sys.executable, *program], core=core, env=environment)
    stage.wait_ready(name, process, metrics, "/readyz", START_S)  # as in the chart
    stage.wait_listening(name, process, port)
    return Target("fairlead", port, process.pid, prefixed=True, metrics=metrics)


def ask_for_rest(gateway: Target) -> None:
    """Have the gateway load its REST API, which it does at the first request and which takes a second or two. Raises
    Unmeasurable.
    """
    url = f"http://127.0.0.1:{gateway.port}/v1/tiers"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            answer.read()
    except OSError as error:
        raise Unmeasurable(f"{url}: {error}") from error


START_S = 120
"""Seconds until a gateway must be ready, also under a program that slows it down."""
ENTRIES = ("fairlead_app.__main__", "fairlead_gateway.endpoint.uvicorn_protocols", "fairlead_rest.application")
"""Modules that import all of a gateway: the first at the start, the others with the first request for REST."""
ABSENT = ("email_validator", "orjson", "python_multipart", "sniffio", "watchfiles")
"""Packages that the image does not contain, and that its libraries import if they are installed."""


def as_installed(folder: Path) -> dict[str, str]:
    """Environment in which Python has bytecode of the gateway, below `folder`, as in the image: a process that compiles
    its modules at the start is 5 MB larger from then on. Nor has it packages that came with the tools of development.
    """
    bytecode, absent = folder / "bytecode", folder / "absent"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    absent.mkdir(exist_ok=True)
    for name in ABSENT:
        (absent / f"{name}.py").write_text('raise ModuleNotFoundError("it is not in the image")\n')
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(absent))))
    if not bytecode.exists():
        subprocess.run([sys.executable, "-c", f"import {', '.join(ENTRIES)}"], env=environment, check=True)
    return environment
