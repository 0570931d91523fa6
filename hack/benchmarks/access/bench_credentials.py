"""Cost of an access token per call: a fixed header against client credentials, token exchange, and users' sign-ins.

Four gateways of the same world run in this process, without sockets and in turns, as in `hack/bench path`. The caller
uses the same JWT at each. All tokens are cached, as they are for all but the first call of a token's lifetime.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec
from joserfc.jwk import RSAKey

from access.guarded_path import ISSUER, Place, Times, guarded_world, token_of
from fairlead_api.documents.catalog import Catalog, Credential, CredentialRef
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE, USER_CONSENT, OAuthSettings
from fairlead_app.authentication import Trust
from fairlead_gateway.core.identity import Identity
from fairlead_mcp.oauth.access_token import AccessToken
from gateway.bench_path import CONNECTIONS, PORTS, Loop
from gateway.gateways import VERSIONS, contents, world, write_documents
from rig.harness import Goal, Report, Sample, Settings

FIXED: Final = "fixed header"
OWN: Final = "client credentials"
EXCHANGED: Final = "token exchange"
CONSENTED: Final = "sign-in"
MORE_GOAL: Final = 3.0
"""Microseconds by which a call with a cached token may exceed a call with a fixed header."""
BATCHES: Final = 100
"""Batches per round, of CONNECTIONS calls each. The slowest hundredth mostly shows the machine's other work."""
_FILE: Final = "client"
_TOKEN: Final = "x" * 900
"""A token as long as an ordinary JWT."""
_SECONDS: Final = 3600.0


def _write_world(folder: Path, grant: str) -> Path:
    """Write documents of servers whose calls use tokens of `grant`, or a fixed header if it is empty."""
    folder.mkdir()
    oauth = OAuthSettings(grant=grant, client_id="bench", issuer=ISSUER) if grant else None
    credential = Credential(client_secret="secret")
    if oauth is None:
        credential = Credential(headers={"Authorization": f"Bearer {_TOKEN}"})
    ref = CredentialRef(secret=_FILE, key="client", hash="1")
    catalogs = [_with_credential(each, ref, oauth) for each in world({"plain": PORTS["plain"]})]
    write_documents(folder, contents(catalogs))
    (folder / "credentials").mkdir()
    (folder / "credentials" / f"{_FILE}.json").write_bytes(msgspec.json.encode(credential))
    return folder


def _with_credential(catalog: Catalog, ref: CredentialRef, oauth: OAuthSettings | None) -> Catalog:
    return msgspec.structs.replace(catalog, credential=ref, oauth=oauth)


async def _cache_tokens(guarded: Place, header: bytes) -> None:
    """Put a token into the cache of each server that is called."""
    gateway = guarded.world.gateway
    identity = await gateway.endpoint.identities.identify(header)
    assert isinstance(identity, Identity)
    token = AccessToken.bearer(_TOKEN, time.time() + _SECONDS, frozenset())
    for key in gateway.registry.guards:
        credentials = gateway.registry.credentials(key)
        if credentials is not None:
            cache = credentials._source._cache  # noqa: SLF001  # as after a grant, which needs a provider
            cache.put(credentials.person(identity), token)


async def _measured(folder: Path, settings: Settings, loop: Loop) -> tuple[Times, Times]:
    """Microseconds per call in each round: in its best batch, and in its slowest hundredth."""
    token, tokens = token_of("RS256", RSAKey.generate_key(2048, {"kid": "k"}))
    grants = {FIXED: "", OWN: CLIENT_CREDENTIALS, EXCHANGED: TOKEN_EXCHANGE, CONSENTED: USER_CONSENT}
    times: Times = {}
    tails: Times = {}
    async with AsyncExitStack() as stack:
        gateways = {}
        for number, (what, grant) in enumerate(grants.items()):
            documents = _write_world(folder / str(number), grant)
            gateways[what] = await guarded_world(stack, documents, loop, Trust((tokens,)), token)
            await _cache_tokens(gateways[what], f"Bearer {token}".encode())
        for _ in range((2 if settings.quick else 6) * settings.rounds):
            for era in VERSIONS:
                batches: dict[str, list[int]] = {what: [] for what in gateways}
                for guarded in gateways.values():
                    await guarded.world.settle(guarded.requests[era])
                for _ in range(BATCHES):  # in turns, so that other work of the machine affects all gateways alike
                    for what, guarded in gateways.items():
                        batches[what].append(sum(await guarded.world.once(guarded.requests[era])))
                for what, guarded in gateways.items():
                    guarded.world.check(guarded.requests[era])
                    ordered = sorted(batches[what])
                    times.setdefault((what, era), []).append(ordered[0] / CONNECTIONS / 1000)
                    tails.setdefault((what, era), []).append(ordered[99 * BATCHES // 100 - 1] / CONNECTIONS / 1000)
    return times, tails


def report(times: Times, tails: Times) -> Report:
    """One row for each kind of credential and era, with its difference from a fixed header in the same round."""
    result = Report("credentials")
    for (what, era), taken in times.items():
        fixed = times[FIXED, era]
        more = [mine - theirs for mine, theirs in zip(taken, fixed, strict=True)]
        ratios = Sample.of(mine / theirs for mine, theirs in zip(taken, fixed, strict=True))
        best = min(taken)
        row: dict[str, str | float | Sample | None] = {"credential": what, "era": era, "µs/call": best}
        slowest = Sample.of(mine / theirs for mine, theirs in zip(tails[what, era], tails[FIXED, era], strict=True))
        row |= {"more than fixed, µs": best - min(fixed), "/ fixed": ratios, "p99, µs": Sample.of(tails[what, era])}
        result.rows.append({**row, "p99 / fixed": slowest})
        if what != FIXED:
            goal = f"a call with a cached token, above one with a fixed header: {what}, {era}"
            result.goals.append(Goal(goal, statistics.median(more), "µs", at_most=MORE_GOAL))
    return result


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if an answer is wrong."""
    logging.getLogger("fairlead_gateway").setLevel(logging.ERROR)  # no issuer exists from which keys could be loaded
    loop = Loop()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=lambda: loop) as runner:
        return report(*runner.run(_measured(Path(folder), settings, loop)))
