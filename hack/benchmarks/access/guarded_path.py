"""The path of a call without sockets, through gateways that identify callers and through an open one; for
`bench_identity`.

All gateways run in this process and in turns, with the functions of `gateway.bench_path`, so that a difference of a
microsecond is visible.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from joserfc import jwt
from joserfc.jwk import Key, RSAKey

from access.guarded import AGENT, ARGUMENTS, AUDIENCE, GROUP, KEYS, OPEN, POLICIES, TOKENS, key_file, write_worlds
from fairlead_app.authentication import Trust, build_trust
from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, compose
from fairlead_app.settings import Settings as GatewaySettings
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwt_authenticator import Tokens
from gateway.bench_path import CONNECTIONS, PORTS, Loop, World, requests_of
from gateway.gateways import VERSIONS, world
from rig.harness import Settings, Unmeasurable

ISSUER = "http://127.0.0.1:9"
"""Issuer of callers' tokens. Nothing listens at this address."""
Times = dict[tuple[str, str], list[float]]
"""Best microseconds of a call in each round, by kind of caller and era."""


def token_of(algorithm: str, key: Key) -> tuple[str, Tokens]:
    """A token, and its verifier, which already has the keys."""
    tokens = Tokens([Issuer(issuer=ISSUER)], address=AUDIENCE, now=time.time, clock=time.monotonic)
    tokens._keys[ISSUER]._keys = {"k": key}  # noqa: SLF001  # as after a fetch
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "a",
        "azp": AGENT,
        "groups": [GROUP],
        "iat": now,
        "exp": now + 3600,
    }
    return jwt.encode({"alg": algorithm, "kid": "k"}, claims, key, algorithms=[algorithm]), tokens


@dataclass
class Place:
    """One gateway, and the requests that each era sends to it."""

    world: World
    requests: dict[str, list[bytes]]


async def guarded_world(stack: AsyncExitStack, folder: Path, loop: Loop, trust: Trust, credential: str) -> Place:
    """A gateway over the documents in `folder`, with calls that have the caller's `credential`. It ends with the
    stack.
    """
    gateway = compose(
        GatewaySettings.of(port=0, metrics_port=0),
        CatalogFeed(source=DirectorySource(folder)),
        ServerAccess(credentials=DirectoryCredentials(folder / "credentials")),
        trust=trust,
    )
    await gateway.start()
    stack.push_async_callback(gateway.stop, 0)
    await asyncio.wait_for(gateway.snapshots.first_snapshot.wait(), 20)
    header = f"Bearer {credential}".encode() if credential else None
    who = await gateway.endpoint.identities.identify(header)
    if not isinstance(who, Identity):
        raise Unmeasurable(f"the credential is not taken: {who.message}")
    issue = gateway.endpoint.server_requests.sessions.issue
    sessions = [issue(VERSIONS["legacy"], b"{}", who.owner) for _ in range(CONNECTIONS)]
    line = b"Authorization: %b\r\nAccept:" % header if header else b"Accept:"
    requests = {
        era: [each.replace(b"Accept:", line) for each in requests_of(era, "echo", "", sessions)] for era in VERSIONS
    }
    return Place(World(gateway, loop), requests)


async def _measured(folder: Path, settings: Settings, loop: Loop) -> Times:
    folders = write_worlds(folder, list(world({"plain": PORTS["plain"]})))
    key, file = key_file(folder)
    token, tokens = token_of("RS256", RSAKey.generate_key(2048, {"kid": "k"}))
    cases: dict[str, tuple[Path, Trust, str]] = {
        OPEN: (folders["open"], Trust(), ""),
        KEYS: (folders["open"], build_trust(GatewaySettings.of(api_keys=file)), key),
        POLICIES: (folders["closed"], build_trust(GatewaySettings.of(api_keys=file)), key),
        TOKENS: (folders["closed"], Trust((tokens,)), token),
        ARGUMENTS: (folders["bounded"], build_trust(GatewaySettings.of(api_keys=file)), key),
    }
    times: Times = {}
    async with AsyncExitStack() as stack:
        places = {
            what: await guarded_world(stack, where, loop, trust, word) for what, (where, trust, word) in cases.items()
        }
        for _ in range((2 if settings.quick else 6) * settings.rounds):
            for era in VERSIONS:
                for what, each_world in places.items():
                    requests = each_world.requests[era]
                    await each_world.world.settle(requests)
                    best = min([sum(await each_world.world.once(requests)) for _ in range(50)])
                    each_world.world.check(requests)
                    times.setdefault((what, era), []).append(best / CONNECTIONS / 1000)
    return times


def measured(settings: Settings) -> Times:
    """Measure all gateways in turns, so that a disturbance affects all alike. Raises Unmeasurable if an answer is
    wrong.
    """
    logging.getLogger("fairlead_gateway").setLevel(logging.ERROR)  # no issuer exists from which keys could be loaded
    loop = Loop()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(_measured(Path(folder), settings, loop))
