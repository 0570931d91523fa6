"""What it costs to know who asks: an open gateway against one with API keys, and the parts of it.

Two gateways over the same upstream, interleaved in rounds and compared within a round by processor time per call. The
second table is of the functions alone, in this process.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey

from fairlead_gateway.identity.apikeys import ApiKeys
from fairlead_gateway.identity.configuration import Issuer
from fairlead_gateway.identity.identities import Identities
from fairlead_gateway.identity.keyfile import KeyFile
from fairlead_gateway.identity.keys import KeyDocument, new_key, written
from fairlead_gateway.identity.tokens import Tokens
from gateways import VERSIONS, start_gateway, start_upstream
from harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from loadtools import Load, Outcome, run_load
from processes import Stage, cores

OPEN, KEYS = "open", "API key"
HERE = "https://tools.example.com"
LOOK_UP_GOAL = 0.5
"""Microseconds."""
RATIO_GOAL = 1.10

Row = tuple[str, int, str]
"""(era, connections, what)"""


def measure(stage: Stage, settings: Settings) -> dict[Row, dict[int, Outcome]]:
    """Outcomes by row and round."""
    hop, rest = cores()
    upstream = start_upstream(stage, "upstream", rest)
    key, record = new_key("bench", now=datetime.now(UTC))
    file = stage.folder / "keys.json"
    file.write_bytes(written([record]))
    targets = {
        OPEN: (start_gateway(stage, upstream.port, hop), ""),
        KEYS: (start_gateway(stage, upstream.port, hop, "--api-keys", file), f"Authorization: Bearer {key}"),
    }
    seconds, warmup = (1.0, 0.3) if settings.quick else (2.0, 0.5)
    outcomes: dict[Row, dict[int, Outcome]] = defaultdict(dict)
    for era, version in VERSIONS.items():
        for connections in (1, 16):
            for number, what in interleaved(list(targets), settings.rounds):
                gateway, header = targets[what]
                load = Load(gateway.port, "/mcp", f"{era}__echo", version, connections, seconds, warmup, header=header)
                try:
                    found = run_load(stage, load, gateway.pid, [upstream.pid], core=rest)
                except Unmeasurable as error:
                    raise Unmeasurable(f"{what}, {era}, {connections} connections: {error}") from error
                outcomes[era, connections, what][number] = found
    return outcomes


def report(outcomes: dict[Row, dict[int, Outcome]], parts: dict[str, Sample]) -> Report:
    """Rows with ratios to the open gateway in the same round."""
    result = Report("identity")
    worst = 0.0
    for (era, connections, what), rounds in outcomes.items():
        cpu = {r: o.cpu for r, o in rounds.items()}
        ratio = ratios(cpu, {r: o.cpu for r, o in outcomes[era, connections, OPEN].items()})
        worst = max(worst, ratio.median if ratio is not None else 0.0)
        result.rows.append(
            {
                "who asks": what,
                "era": era,
                "connections": connections,
                "CPU µs/call": Sample.of(cpu.values()),
                "p50 µs": Sample.of(o.p50 for o in rounds.values()),
                "CPU / open": ratio,
            }
        )
    result.rows += [{"who asks": name, "CPU µs/call": sample} for name, sample in parts.items()]
    known = parts["known: an API key or a token"].median
    result.goals.append(Goal("processor time of a call with a key to one without", worst, "", at_most=RATIO_GOAL))
    result.goals.append(Goal("finding whose a known credential is", known, "µs", at_most=LOOK_UP_GOAL))
    return result


async def parts(rounds: int) -> dict[str, Sample]:
    """Microseconds of the functions that look at a credential."""
    key, record = new_key("bench", now=datetime.now(UTC))
    keys = ApiKeys([KeyFile(Path("here"))], time.time)
    keys.told("here", KeyDocument((record,)))
    opened, closed = Identities(), Identities([keys])
    header = f"Bearer {key}".encode()
    await closed.identify(header)
    found = {
        "known: nobody is asked": _timed(lambda: opened.known(None), rounds),
        "known: an API key or a token": _timed(lambda: closed.known(header), rounds),
        "at first: an API key": _timed(lambda: keys.check(key), rounds),
    }
    for name, signer in (
        ("RS256", RSAKey.generate_key(2048, {"kid": "k"})),
        ("ES256", ECKey.generate_key("P-256", {"kid": "k"})),
    ):
        token, tokens = _token(name, signer)
        found[f"at first: a token, {name}"] = _timed(partial(tokens.check, token), rounds)
    return found


def _token(algorithm: str, key: Key) -> tuple[str, Tokens]:
    tokens = Tokens([Issuer(issuer="https://i")], address=HERE, now=time.time, clock=time.monotonic)
    tokens._keys["https://i"]._keys = {"k": key}  # noqa: SLF001  # as after a fetch
    now = int(time.time())
    claims: dict[str, Any] = {"iss": "https://i", "aud": HERE, "sub": "a", "azp": "npc", "iat": now, "exp": now + 3600}
    return jwt.encode({"alg": algorithm, "kid": "k"}, claims, key, algorithms=[algorithm]), tokens


def _timed(work: Callable[[], object], rounds: int) -> Sample:
    """Microseconds of one call, over rounds of about 50 ms."""
    began = time.perf_counter()
    work()
    times = max(20, int(0.05 / max(time.perf_counter() - began, 1e-6)))
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(times):
            work()
        taken.append((time.process_time() - began) / times * 1e6)
    return Sample.of(taken)


def run(settings: Settings) -> Report:
    """Measure; raises Unmeasurable where something does not start or any answer is wrong."""
    alone = asyncio.run(parts(max(settings.rounds, 3)))
    with Stage() as stage:
        return report(measure(stage, settings), alone)
