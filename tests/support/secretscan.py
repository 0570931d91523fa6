"""Searches all output of a run (files, logs, metrics, answers) for the secrets that it used."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Mapping
from urllib.parse import quote

from operatorworld import GROUP, World


def spellings_of(secret: str) -> set[str]:
    """Forms in which a secret may occur: plain, in base64 (at each of three offsets), URL-escaped, reversed."""
    spellings = {secret, quote(secret, safe=""), secret[::-1]}
    for offset in range(3):
        code = base64.b64encode(b" " * offset + secret.encode()).decode()
        spellings.add(code[offset and 4 : -4])
    return spellings


def leaks(secrets: Mapping[str, str], name: str, text: str, *, but: frozenset[str] = frozenset()) -> list[str]:
    """Secrets that occur in a text, by name, with their surroundings."""
    problems = []
    for kind, secret in secrets.items():
        for way in spellings_of(secret) if kind not in but else ():
            at = text.find(way)
            if at >= 0:
                problems.append(f"{name}: {kind}: …{text[max(0, at - 80) : at + 40]}")
    return problems


def stored_texts(world: World) -> dict[str, str]:
    """Everything that the API server stores, except Secrets."""
    paths = {
        "config maps": f"/api/v1/namespaces/{world.release}/configmaps",
        "events": f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events",
        "deployments": world.path("deployments"),
        "services": world.path("services"),
        "leases": f"/apis/coordination.k8s.io/v1/namespaces/{world.release}/leases",
        "tiers": f"{GROUP}/latencytiers",
    }
    texts = {name: json.dumps(world.request("GET", path)[1]) for name, path in paths.items()}
    texts |= {name: document.decode() for name, document in world.documents().items()}
    _, servers = world.request("GET", f"{GROUP}/namespaces/{world.namespace}/mcpservers")
    return texts | {"statuses": json.dumps([item.get("status") for item in servers["items"]])}


async def operations(port: int, page: str, token: str) -> str:
    """Answer of the gateway's metrics port, which accepts `token`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        writer.write(f"GET /{page} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 20)
    return answer.decode()
