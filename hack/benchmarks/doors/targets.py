"""Targets of the doors: an upstream in C, nginx, and a gateway for each configuration.

Each is started when the first door asks for it. What is measured has one core, load and servers behind it the other.
"""

from __future__ import annotations

import json
import shutil
import sys
from functools import cached_property
from pathlib import Path

import msgspec

from access.guarded import AGENT, key_file
from certificates import Authority
from doors.models import CONVERSATIONS, TOOLS, routes
from fairlead_api.documents.codec import RULES_NAME, encode
from fairlead_api.documents.rules import Policy, Rule, Subject
from gateway.gateways import (
    NGINX,
    Target,
    ask_for_rest,
    catalog,
    contents,
    decisions,
    entry,
    gateway_over,
    padded,
    start_nginx,
    start_upstream,
    world,
    write_documents,
)
from gateway.workloads import AWAKE, LARGE_BYTES
from ports import free_port
from rig.harness import Unmeasurable
from rig.loadtools import built
from rig.processes import Stage, cores
from speech import provider

POLICIES = 5
"""Policies of the principal whose list is asked for; each has as many of the servers as the others."""
MANY = 10**9
LIMITS = {"FAIRLEAD_AGENT_CALLS_PER_MINUTE": str(MANY), "FAIRLEAD_AGENT_CONCURRENCY": str(MANY)}
TLS_SERVER = """  upstream upNUMBER { server 127.0.0.1:BACKEND; keepalive 512; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:LISTENHOW backlog=2048;
    CERTIFICATE
    location / {
      proxy_pass SCHEME://upNUMBER; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host 127.0.0.1:BACKEND; proxy_ssl_verify off; proxy_ssl_session_reuse on;
    }
  }
"""
SPEECH_MODEL = "gpt-realtime"
PROVIDER = Path(provider.__file__).resolve()
FREE = b'{"name":"echo","description":"Echo the text back.","inputSchema":{"type":"object"}}'
"""A tool that a model may call with nothing."""
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"


class Targets:
    """Targets that were started so far; they end with the stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.hop, self.rest = cores()

    # Servers behind the gateways, and plain hops

    @cached_property
    def upstream(self) -> Target:
        """Echoes."""
        return start_upstream(self.stage, "upstream", self.rest, *AWAKE)

    @cached_property
    def large(self) -> Target:
        """Echoes, with LARGE_BYTES more."""
        return start_upstream(self.stage, "large", self.rest, *AWAKE, "-p", str(LARGE_BYTES))

    @cached_property
    def nginx(self) -> Target:
        """A plain hop. Raises Unmeasurable where it is not installed."""
        started = start_nginx(self.stage, [[self.upstream.port]], self.hop)
        if not started:
            raise Unmeasurable("nginx is not installed (Debian: nginx-light)")
        return started[0]

    @property
    def helpers(self) -> list[int]:
        """Processes of the upstreams, which do not count as foreign work."""
        return [self.upstream.pid, self.large.pid]

    # Gateways

    @cached_property
    def documents(self) -> Path:
        """Documents of 100 servers with ten tools each, and 100 policies that let everybody do everything."""
        folder = self.stage.folder / "world"
        write_documents(folder, contents(list(world({"plain": self.upstream.port, "large": self.large.port}))))
        return folder

    def gateway(self, name: str, *words: str | Path, **variables: str) -> Target:
        """One over these documents."""
        return gateway_over(self.stage, self.documents, self.hop, *words, name=name, **variables)

    @cached_property
    def plain(self) -> Target:
        """The gateway of the plain call."""
        return self.gateway("gateway")

    @cached_property
    def router(self) -> Target:
        """The gateway that is asked at `/router/mcp`: it keeps results."""
        return self.gateway("router")

    @cached_property
    def rest_api(self) -> Target:
        """The gateway that is asked for REST."""
        target = self.gateway("rest")
        ask_for_rest(target)
        return target

    @cached_property
    def keyed(self) -> tuple[Target, str]:
        """A gateway whose one agent has POLICIES policies, and the line of a head that says who it is."""
        catalogs = list(world({"plain": self.upstream.port, "large": self.large.port}))
        rules, _ = decisions(catalogs)
        names = [catalog.name for catalog in catalogs]
        policies = tuple(
            Policy(
                namespace="default",
                name=f"part-{number}",
                servers=tuple(names[number::POLICIES]),
                subjects=(Subject(kind="Agent", name=AGENT),),
                rules=(Rule(action="Deny", tools=("tool_3",)), Rule(action="Allow", tools=("*",))),
            )
            for number in range(POLICIES)
        )
        folder = self.stage.folder / "policies"
        decided = {RULES_NAME: encode(msgspec.structs.replace(rules, policies=policies))}
        write_documents(folder, contents(catalogs) | decided)
        key, file = key_file(self.stage.folder)
        target = gateway_over(self.stage, folder, self.hop, "--api-keys", file, name="keyed")
        return target, f"Authorization: Bearer {key}"

    @cached_property
    def audited(self) -> Target:
        """A gateway that writes a line for each call to disk."""
        return self.gateway("audited", FAIRLEAD_AUDIT="all", FAIRLEAD_AUDIT_FILE=str(self.stage.folder / "audit.log"))

    @cached_property
    def redis(self) -> str:
        """Address of a Redis. Raises Unmeasurable where it is not installed."""
        program = shutil.which("redis-server")
        if program is None:
            raise Unmeasurable("redis-server is not installed: apt-get install redis-server")
        port = free_port()
        words: list[str | Path] = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
        self.stage.wait_listening("redis", self.stage.start("redis", words, core=self.rest), port)
        return f"redis://127.0.0.1:{port}"

    @cached_property
    def limited(self) -> Target:
        """A gateway whose limits of agents are counted with other replicas."""
        return self.gateway("limited", FAIRLEAD_REDIS=self.redis, **LIMITS)

    @cached_property
    def collector(self) -> str:
        """Address of what takes every trace."""
        answer = self.stage.folder / "collected"
        answer.write_bytes(OK)
        port = free_port()
        words: list[str | Path] = [built("httpscript"), str(port), "/v1/traces", "", answer]
        self.stage.wait_listening("collector", self.stage.start("collector", words, core=self.rest), port)
        return f"http://127.0.0.1:{port}/v1/traces"

    def traced(self, share: float) -> Target:
        """A gateway that samples that share of the traces that begin at it."""
        return self.gateway(
            f"traced-{share:g}",
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=self.collector,
            OTEL_TRACES_SAMPLER="parentbased_traceidratio",
            OTEL_TRACES_SAMPLER_ARG=str(share),
        )

    @cached_property
    def traced_all(self) -> Target:
        """A gateway that traces every call."""
        return self.traced(1.0)

    @cached_property
    def traced_few(self) -> Target:
        """A gateway that traces one call of a hundred."""
        return self.traced(0.01)

    @cached_property
    def registered(self) -> Target:
        """A gateway that a Python program uses as a server: of the servers that model requests get tools of."""
        return gateway_over(self.stage, self.offered, self.hop, name="registered")

    # Models

    @cached_property
    def offered(self) -> Path:
        """Documents of one server with TOOLS tools."""
        folder = self.stage.folder / "offered"
        tools = tuple(padded(f"tool_{number}") for number in range(TOOLS - 1))
        write_documents(folder, contents([catalog("legacy", self.upstream.port, tools=tools)], decided=False))
        return folder

    @cached_property
    def provider(self) -> int:
        """Port of the scripted provider."""
        folder = self.stage.folder / "answers"
        folder.mkdir()
        port = free_port()
        script = [word for each in CONVERSATIONS for word in each.script(folder)]
        process = self.stage.start("provider", [built("httpscript"), str(port), *script], core=self.rest)
        self.stage.wait_listening("provider", process, port)
        return port

    @cached_property
    def models(self) -> Target:
        """A gateway before the scripted provider, whose requests get TOOLS tools."""
        file = self.stage.folder / "routes.yaml"
        file.write_text(routes(self.provider))
        return gateway_over(self.stage, self.offered, self.hop, "--routes", file, name="models")

    @cached_property
    def speaking(self) -> Target:
        """A gateway before a model of speech, whose first tool needs no arguments."""
        port = free_port()
        process = self.stage.start("speech", [sys.executable, PROVIDER, str(port)], core=self.rest)
        self.stage.wait_listening("speech", process, port)
        file = self.stage.folder / "speech.yaml"
        speech = {"baseUrl": f"http://127.0.0.1:{port}/v1", "models": [SPEECH_MODEL]}
        file.write_text(json.dumps({"providers": {"speech": speech}}))
        tools = (entry("echo", FREE), *(padded(f"tool_{number}") for number in range(TOOLS - 1)))
        folder = self.stage.folder / "spoken"
        spoken = msgspec.structs.replace(catalog("legacy", self.upstream.port), tools=tools)
        write_documents(folder, contents([spoken], decided=False))
        bounds = {"FAIRLEAD_SPEECH_SESSIONS": "10000", "FAIRLEAD_CLIENT_CONNECTIONS_EACH": "10000"}
        return gateway_over(self.stage, folder, self.hop, "--routes", file, name="speaking", **bounds)

    # TLS

    @cached_property
    def certificate(self) -> Path:
        """A key and a certificate for 127.0.0.1, in one file."""
        file = self.stage.folder / "server.pem"
        file.write_text(Authority().issue())
        return file

    def _nginx(self, name: str, backend: int, core: int, *, tls: bool = False, scheme: str = "http") -> Target:
        """nginx that takes TLS off (`tls`), or puts it on (`scheme`)."""
        if (program := shutil.which("nginx") or shutil.which("/usr/sbin/nginx")) is None:
            raise Unmeasurable("nginx is not installed (Debian: nginx-light)")
        port = free_port()
        words = {
            "LISTENHOW": f"{port}{' ssl' if tls else ''}",
            "CERTIFICATE": f"ssl_certificate {self.certificate}; ssl_certificate_key {self.certificate};"
            if tls
            else "",
            "SCHEME": scheme,
            "BACKEND": str(backend),
            "NUMBER": "0",
        }
        server = TLS_SERVER
        for word, text in words.items():
            server = server.replace(word, text)
        config = self.stage.folder / f"{name}.conf"
        config.write_text(NGINX.replace("SERVERS", server).replace("nginx.pid", f"{name}.pid"))
        command: list[str | Path] = [program, "-p", f"{self.stage.folder}/", "-e", "stderr", "-c", config]
        process = self.stage.start(name, command, core=core)
        self.stage.wait_listening(name, process, port)
        return Target(name, port, process.pid)

    def behind_tls(self, name: str, hop: Target) -> Target:
        """`hop` as a client that speaks no TLS reaches it: nginx on the load's core puts TLS on, and is not counted."""
        front = self._nginx(f"{name}-client", hop.port, self.rest, scheme="https")
        return Target(name, front.port, hop.pid, prefixed=hop.prefixed)

    @cached_property
    def proxied(self) -> Target:
        """The gateway of the plain call as a client of a reverse proxy reaches it: nginx on the load's core, which is
        not counted. A connection to the gateway has requests of all clients.
        """
        front = self._nginx("proxy", self.plain.port, self.rest)
        return Target("proxied", front.port, self.plain.pid, prefixed=self.plain.prefixed)

    @cached_property
    def tls_gateway(self) -> Target:
        """A gateway that speaks TLS."""
        return self.gateway("gateway-tls", "--tls-cert", self.certificate, "--tls-key", self.certificate)

    @cached_property
    def tls(self) -> Target:
        """That gateway behind nginx."""
        return self.behind_tls("tls", self.tls_gateway)

    @cached_property
    def nginx_tls(self) -> Target:
        """nginx that speaks TLS."""
        return self.behind_tls("nginx-tls", self._nginx("nginx-tls-hop", self.upstream.port, self.hop, tls=True))
