"""The hop: a tools/call through the gateway, against nginx as a plain hop and against no hop at all.

One upstream that echoes; nginx and the gateway each alone on one core, load and upstream on the other. The client's
era is the upstream's. What a call costs is the processor time of the hop's process tree, divided by the calls of the
same window; ratios are taken within a round.
"""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, HttpEndpoint, ToolEntry, definition_hash, search_hash
from fairlead_api.documents.codec import catalog_name, encode
from fairlead_api.meta import ServerKey
from harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from loadtools import Load, Outcome, built, run_load
from processes import Stage, become_realtime, cores, free_port

VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
SATURATED = 64
"""Connections at which the hop's core is busy; the goals are about this row."""
ECHO = (
    b'{"name":"echo","description":"Echo the text back.","inputSchema":{"type":"object","properties":'
    b'{"text":{"type":"string","description":"What to echo"}},"required":["text"]}}'
)
NGINX = """worker_processes 1;
pid nginx.pid;
error_log stderr warn;
daemon off;
events { worker_connections 4096; multi_accept on; }
http {
  access_log off; keepalive_requests 100000000; keepalive_timeout 300s;
  client_body_buffer_size 64k;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  upstream up { server 127.0.0.1:UPSTREAM; keepalive 512; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:LISTEN backlog=2048;
    location / {
      proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host 127.0.0.1:UPSTREAM;
      proxy_buffering on; proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k;
    }
  }
}
"""


@dataclass(frozen=True)
class Target:
    """Something that answers on `port`; `pid` is the process tree whose time counts."""

    name: str
    port: int
    pid: int
    prefixed: bool = False

    def tool(self, era: str) -> str:
        """The echo tool's name here, for a client of `era`."""
        return f"{era}__echo" if self.prefixed else "echo"


def catalog(era: str, port: int) -> Catalog:
    """The document of the echo server as a server of `era`; its prefix is the era's name."""
    tool = ToolEntry(
        name="echo",
        definition=Raw(ECHO),
        hash=definition_hash(ECHO),
        search_hash=search_hash("echo", ECHO),
    )
    return Catalog(
        namespace="default",
        name=era,
        uid=f"bench-{era}",
        generation=1,
        prefix=era,
        endpoint=HttpEndpoint(url=f"http://127.0.0.1:{port}/mcp"),
        protocol_version=VERSIONS[era],
        capabilities=Raw(b'{"tools":{}}'),
        tools=(tool,),
    )


def start_upstream(stage: Stage, name: str, core: int) -> Target:
    """The echo server in C."""
    port = free_port()
    process = stage.start(name, [built("mcpup"), str(port)], core=core)
    stage.wait_listening(name, process, port)
    return Target(name, port, process.pid)


def start_nginx(stage: Stage, upstream: int, core: int) -> Target | None:
    """nginx with one worker and kept connections on both sides; None where it is not installed."""
    if (program := shutil.which("nginx") or shutil.which("/usr/sbin/nginx")) is None:
        return None
    port = free_port()
    config = stage.folder / "nginx.conf"
    config.write_text(NGINX.replace("UPSTREAM", str(upstream)).replace("LISTEN", str(port)))
    command: list[str | Path] = [program, "-p", f"{stage.folder}/", "-e", "stderr", "-c", config]
    process = stage.start("nginx", command, core=core)
    stage.wait_listening("nginx", process, port)
    return Target("nginx", port, process.pid)


def start_gateway(stage: Stage, upstream: int, core: int, *more: str | Path) -> Target:
    """`fairlead gateway` over one catalog document per era, with `more` words for its command line."""
    documents = stage.folder / "documents"
    documents.mkdir()
    for era in VERSIONS:
        name = catalog_name(ServerKey("default", era))
        (documents / f"{name}.json").write_bytes(encode(catalog(era, upstream)))
    fairlead = Path(sys.executable).with_name("fairlead")
    port = free_port()
    command: list[str | Path] = [fairlead, "gateway", "--documents", documents, "--host", "127.0.0.1"]
    command += ["--port", str(port), "--metrics-port", str(free_port()), *more]
    process = stage.start("gateway", command, core=core)
    stage.wait_ready("gateway", process, port, "/readyz")
    return Target("fairlead", port, process.pid, prefixed=True)


Key = tuple[str, int, str]
"""(era, connections, target)"""


def measure(stage: Stage, settings: Settings, notes: list[str]) -> dict[Key, dict[int, Outcome]]:
    """Outcomes by row and round."""
    hop, rest = cores()
    upstream = start_upstream(stage, "upstream", rest)
    # As far from the load as a hop is, so that `direct` shows what a second core costs and not more.
    direct = start_upstream(stage, "direct", hop)
    nginx = start_nginx(stage, upstream.port, hop)
    if nginx is None:
        notes.append("nginx is not installed (Debian: nginx-light): no ratios")
    gateway = start_gateway(stage, upstream.port, hop)
    targets = [target for target in (direct, nginx, gateway) if target]
    seconds, warmup = (1.0, 0.3) if settings.quick else (3.0, 1.0)
    outcomes: dict[Key, dict[int, Outcome]] = defaultdict(dict)
    for era, version in VERSIONS.items():
        for connections in (SATURATED,) if settings.quick else (1, 16, SATURATED):
            for number, target in interleaved(targets, settings.rounds):
                load = Load(target.port, "/mcp", target.tool(era), version, connections, seconds, warmup)
                helpers = [] if target is direct else [upstream.pid]
                try:
                    outcome = run_load(stage, load, target.pid, helpers, core=rest)
                except Unmeasurable as error:
                    raise Unmeasurable(f"{target.name}, {era}, {connections} connections: {error}") from error
                outcomes[era, connections, target.name][number] = outcome
    return outcomes


def report(outcomes: dict[Key, dict[int, Outcome]], notes: list[str]) -> Report:
    """Rows with ratios to nginx in the same round, and the goals at saturation."""
    result = Report("gateway", notes=notes)
    for (era, connections, target), rounds in outcomes.items():
        nginx = outcomes.get((era, connections, "nginx"), {})
        throughput = ratios(
            {r: o.calls_per_second for r, o in rounds.items()}, {r: o.calls_per_second for r, o in nginx.items()}
        )
        cpu = ratios({r: o.cpu for r, o in rounds.items()}, {r: o.cpu for r, o in nginx.items()})
        result.rows.append(
            {
                "target": target,
                "era": era,
                "connections": connections,
                "calls/s": Sample.of(o.calls_per_second for o in rounds.values()),
                "p50 µs": Sample.of(o.p50 for o in rounds.values()),
                "p99 µs": Sample.of(o.p99 for o in rounds.values()),
                "CPU µs/call": Sample.of(o.cpu for o in rounds.values()),
                "user": Sample.of(o.cpu_user for o in rounds.values()),
                "system": Sample.of(o.cpu_system for o in rounds.values()),
                "cores used": Sample.of(o.utilization for o in rounds.values()),
                "foreign cores": Sample.of(o.foreign for o in rounds.values()),
                "× nginx calls/s": throughput,
                "× nginx CPU": cpu,
            }
        )
        if target == "fairlead" and connections == SATURATED:
            result.goals += [
                Goal(f"throughput, {era}", _median(throughput), "× nginx", at_least=0.6),
                Goal(f"CPU per call, {era}", _median(cpu), "× nginx", at_most=1.5),
            ]
    notes.append("`cores used` well below 1 at saturation: load and upstream were the limit, read the CPU column")
    return result


def _median(sample: Sample | None) -> float | None:
    return None if sample is None else sample.median


def run(settings: Settings) -> Report:
    """Measure; raises Unmeasurable where something does not start or any answer is wrong."""
    if settings.realtime:
        become_realtime()
    notes: list[str] = []
    with Stage() as stage:
        return report(measure(stage, settings, notes), notes)
