"""Gateways that authenticate and authorize callers, and one that is open to everybody; for `bench_identity`.

All serve the world of `gateway.gateways`. Each of the 100 policies applies to the caller, by name or by group, and
hides one tool of its server. The measured calls are of allowed tools.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import RULES_NAME, encode, state_name
from fairlead_api.documents.rules import Policy, Rule, Subject
from fairlead_gateway.identity.key_format import encode_keys, new_key
from gateway.gateways import Target, contents, decisions, gateway_over, world, write_documents
from issuers import LocalIssuer, issuing
from rig.harness import Unmeasurable
from rig.processes import Stage

OPEN = "nobody is asked, no policies"
KEYS = "API key, no policies"
POLICIES = "API key, 100 policies"
TOKENS = "JWT, 100 policies"
ARGUMENTS = "API key, 100 policies that bound arguments"
AGENT, GROUP, AUDIENCE = "bench", "players", "https://tools.example.com"
SHORT: dict[str, object] = {"properties": {"text": {"type": "string", "maxLength": 4096}}}


@dataclass(frozen=True)
class Asked:
    """A gateway, and the header line that identifies the caller."""

    gateway: Target
    header: str = ""


def policies(servers: list[str], arguments: dict[str, object] | None) -> tuple[Policy, ...]:
    """Tool policies, one for each server."""
    rules = (Rule(action="Deny", tools=("tool_3",)), Rule(action="Allow", tools=("*",), arguments=arguments))
    whom = (Subject(kind="Agent", name=AGENT), Subject(kind="Group", name=GROUP))
    return tuple(
        Policy(namespace="default", name=f"policy-{name}", servers=(name,), subjects=(whom[number % 2],), rules=rules)
        for number, name in enumerate(servers)
    )


@contextmanager
def issuer() -> Iterator[LocalIssuer]:
    """Run an issuer in a separate thread."""
    started: list[LocalIssuer] = []
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with issuing() as made:
            started.append(made)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="issuer")
    thread.start()
    try:
        if not ready.wait(30):
            raise Unmeasurable("the issuer of tokens does not start")
        yield started[0]
    finally:
        over.set()
        thread.join(10)


def write_worlds(folder: Path, catalogs: list[Catalog]) -> dict[str, Path]:
    """Write documents without policies (`open`), with policies (`closed`), and with policies that limit arguments
    (`bounded`).
    """
    rules, state = decisions(catalogs)
    names = [catalog.name for catalog in catalogs]
    sets = {"open": (), "closed": policies(names, None), "bounded": policies(names, SHORT)}
    folders: dict[str, Path] = {}
    for kind, content in sets.items():
        folders[kind] = folder / kind
        decided = {RULES_NAME: encode(msgspec.structs.replace(rules, policies=content)), state_name(0): encode(state)}
        write_documents(folders[kind], contents(catalogs, decided=False) | decided)
    return folders


def key_file(folder: Path) -> tuple[str, Path]:
    """Create a key of the agent and the file that contains it."""
    key, record = new_key(AGENT, groups=(GROUP,), now=datetime.now(UTC))
    file = folder / "keys.json"
    file.write_bytes(encode_keys([record]))
    return key, file


def start(stage: Stage, upstream: Target, core: int, made: LocalIssuer) -> dict[str, Asked]:
    """Start all gateways, by the kind of caller."""
    folders = write_worlds(stage.folder, list(world({"plain": upstream.port})))
    key, file = key_file(stage.folder)
    trust = stage.folder / "identity.yaml"
    trust.write_text(f"issuers: [{{issuer: '{made.url}', audiences: ['{AUDIENCE}']}}]\n")
    token = made.token(aud=AUDIENCE, azp=AGENT, groups=[GROUP], exp=int(time.time()) + 3600)
    with_key = f"Authorization: Bearer {key}"

    def gateway(kind: str, name: str, *words: str | Path) -> Target:
        return gateway_over(stage, folders[kind], core, *words, name=name)

    return {
        OPEN: Asked(gateway("open", "open")),
        KEYS: Asked(gateway("open", "keys", "--api-keys", file), with_key),
        POLICIES: Asked(gateway("closed", "policies", "--api-keys", file), with_key),
        TOKENS: Asked(gateway("closed", "tokens", "--identity", trust), f"Authorization: Bearer {token}"),
        ARGUMENTS: Asked(gateway("bounded", "arguments", "--api-keys", file), with_key),
    }
