"""Memory of the gateway for streams that nobody reads, by API.

A model sends as fast as its reader allows. MANY clients of one API request a stream and read nothing, until the model
waits for all of them. The growth of the gateway's memory divided by the number of clients is the cost of one client,
without the sockets' buffers, which belong to the kernel. Each API has a separate gateway, which is warmed up by a few
streams.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

from gateway.gateways import catalog, contents, gateway_over, padded, write_documents
from ports import free_port
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable
from rig.processes import Stage, cores, memory

MANY: Final = 1_000
WARM: Final = 20
"""Streams before the first reading of memory."""
MOST: Final = 16 << 20
"""Bytes of a stream, far beyond what sockets hold."""
HERE: Final = Path(__file__).resolve().parent
PATHS: Final = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m-gemini:streamGenerateContent?alt=sse",
}
PARTS: Final = tuple(PATHS)
RECEIVE_BUFFER: Final = 16 << 10
"""Receive buffer of a client's socket in bytes; small, so that it fills up soon."""
SECONDS: Final = 300
"""Maximum time in seconds until all streams wait."""


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if a process does not start, or if the model never has to wait."""
    settings.check_parts(PARTS)
    many = MANY // 10 if settings.quick else MANY
    report = Report("unread")
    for api in PATHS:
        if settings.wants(api):
            bytes_each, sent_each = _measured(api, many)
            held, sent = Sample.of([bytes_each / 1000]), Sample.of([sent_each / 1000])
            report.rows.append({"API": api, "kB a stream": held, "kB sent": sent})
            report.goals.append(Goal(f"memory of an unread stream, {api}", bytes_each / 1000, "kB", at_most=64))
    report.notes.append(f"{many} clients at once; `kB sent`: what the model wrote for one until it had to wait")
    if settings.quick:
        report.notes.append("--quick: not for quoting")
    return report


def _measured(api: str, many: int) -> tuple[float, float]:
    """Bytes of gateway memory per client, and bytes that the model wrote for each."""
    core, other = cores()
    with Stage() as stage, contextlib.ExitStack() as stack:
        model = free_port()
        process = stage.start("model", [sys.executable, HERE / "unread_model.py", str(model), str(MOST)], core=other)
        stage.wait_listening("model", process, model)
        gateway = _gateway(stage, model, core)
        for _ in range(WARM):
            _client(stack, gateway.port, api)
        _wait(model, WARM)
        before, (_, sent_before) = memory(gateway.pid).now, _told(model)
        for _ in range(many):
            _client(stack, gateway.port, api)
        _wait(model, WARM + many)
        after, (_, sent) = memory(gateway.pid).now, _told(model)
    return (after - before) / many, (sent - sent_before) / many


def _gateway(stage: Stage, model: int, core: int) -> Any:
    documents = stage.folder / "documents"
    write_documents(documents, contents([catalog("modern", 9, tools=(padded("tool_0"),))], decided=False))
    kinds = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gemini"}
    base = f"http://127.0.0.1:{model}/v1"
    providers: dict[str, dict[str, Any]] = {
        api: {"kind": kind, "baseUrl": base, "models": [f"m-{api}"]} for api, kind in kinds.items()
    }
    providers["responses"]["responses"] = True
    routes = stage.folder / "routes.yaml"
    routes.write_text(json.dumps({"providers": providers}))
    limits = {"FAIRLEAD_LLM_REQUESTS": str(2 * MANY), "FAIRLEAD_LLM_REQUESTS_EACH": str(2 * MANY)}
    return gateway_over(stage, documents, core, "--routes", routes, **limits, FAIRLEAD_CLIENT_UNREAD=str(2 * SECONDS))


def _client(stack: contextlib.ExitStack, port: int, api: str) -> None:
    """Request a stream and read nothing of it."""
    body: dict[str, Any] = {"model": f"m-{api}", "stream": True, "max_tokens": 9}
    body |= {"input": "Hi"} if api == "responses" else {"messages": [{"role": "user", "content": "Hi"}]}
    if api == "gemini":
        body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    if api == "responses":
        del body["max_tokens"]
    encoded = json.dumps(body).encode()
    head = f"POST {PATHS[api]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    client = stack.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    client.sendall(f"{head}content-length: {len(encoded)}\r\n\r\n".encode() + encoded)


def _told(model: int) -> tuple[int, int]:
    """Number of streams that wait for their reader, and number of bytes that were written to all streams."""
    with urllib.request.urlopen(f"http://127.0.0.1:{model}/", timeout=60) as answer:
        waiting, written = answer.read().split()
    return int(waiting), int(written)


def _wait(model: int, streams: int) -> None:
    """Wait until the model waits for all readers and writes no more. Raises Unmeasurable."""
    end, last = time.monotonic() + SECONDS, (-1, -1)
    while time.monotonic() < end:
        now = _told(model)
        if now == last and now[0] == streams:
            return
        last = now
        time.sleep(0.5)
    raise Unmeasurable(f"the model waits for {last[0]} of {streams} readers after {SECONDS} s; {last[1]} bytes written")
