"""Costs of identifying and authorizing a caller: an open gateway against guarded ones, and the parts.

The gateways serve the same world over the same upstream. They are interleaved in rounds and compared within a round by
processor time per call. The same is measured without sockets, which varies less, and for the functions alone.
`--realtime` excludes the machine's other work.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from joserfc.jwk import ECKey, RSAKey

from access import guarded
from access.guarded_path import Times, measured, token_of
from fairlead_gateway.identity.key_authenticator import ApiKeys
from fairlead_gateway.identity.key_format import KeyDocument, new_key
from fairlead_gateway.identity.keys_in_file import KeyFile
from fairlead_gateway.identity.request_authentication import Identities
from gateway.gateways import VERSIONS, start_upstream
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from rig.loadtools import Load, Outcome, run_load
from rig.processes import Stage, become_realtime, cores

HERE = "https://tools.example.com"
LOOK_UP_GOAL = 0.5
"""Goal for looking up an identity, in microseconds."""
RATIO_GOAL = 1.10

Row = tuple[str, int, str]
"""(era, connections, what)"""


def measure(stage: Stage, settings: Settings) -> dict[Row, dict[int, Outcome]]:
    """Outcomes by row and round."""
    hop, rest = cores()
    upstream = start_upstream(stage, "upstream", rest)
    seconds, warmup = (1.0, 0.3) if settings.quick else (2.0, 0.5)
    outcomes: dict[Row, dict[int, Outcome]] = defaultdict(dict)
    with guarded.issuer() as issuer:
        targets = guarded.start(stage, upstream, hop, issuer)
        for era, version in VERSIONS.items():
            for connections in (1, 16):
                for number, what in interleaved(list(targets), settings.rounds):
                    target = targets[what]
                    load = Load(
                        target.gateway.port,
                        "/mcp",
                        f"{era}__echo",
                        version,
                        connections,
                        seconds,
                        warmup,
                        header=target.header,
                    )
                    try:
                        outcome = run_load(stage, load, target.gateway.pid, [upstream.pid], core=rest)
                    except Unmeasurable as error:
                        raise Unmeasurable(f"{what}, {era}, {connections} connections: {error}") from error
                    outcomes[era, connections, what][number] = outcome
    return outcomes


def report(outcomes: dict[Row, dict[int, Outcome]], path: Times, parts: dict[str, Sample]) -> Report:
    """Rows with ratios to the open gateway in the same round."""
    result = Report("identity")
    values_by_name: dict[str, list[float]] = defaultdict(list)
    for (era, connections, what), rounds in outcomes.items():
        opened = outcomes[era, connections, guarded.OPEN]
        values_by_name[what] += [o.cpu / opened[r].cpu for r, o in rounds.items() if r in opened]
        result.rows.append(
            {
                "who asks": what,
                "era": era,
                "connections": connections,
                "CPU µs/call": Sample.of(o.cpu for o in rounds.values()),
                "p50 µs": Sample.of(o.p50 for o in rounds.values()),
                "CPU / open": ratios({r: o.cpu for r, o in rounds.items()}, {r: o.cpu for r, o in opened.items()}),
            }
        )
    for (what, era), times in path.items():
        row: dict[str, str | int | float | Sample | None] = {
            "who asks": what,
            "era": era,
            "connections": "without sockets",
            "CPU µs/call": min(times),
        }
        result.rows.append({**row, "CPU / open": Sample.of(_each(times, path[guarded.OPEN, era]))})
    result.rows += [{"who asks": name, "CPU µs/call": sample} for name, sample in parts.items()]
    for what in (guarded.KEYS, guarded.POLICIES, guarded.TOKENS):
        worst = max(statistics.median(_each(path[what, era], path[guarded.OPEN, era])) for era in VERSIONS)
        for how, value in (
            ("median of all rounds", statistics.median(values_by_name[what])),
            ("without sockets", worst),
        ):
            result.goals.append(Goal(f"a call to one of an open gateway, {how}: {what}", value, "", at_most=RATIO_GOAL))
    authenticated = parts["known: an API key or a token"].median
    result.goals.append(Goal("finding whose a known credential is", authenticated, "µs", at_most=LOOK_UP_GOAL))
    return result


def _each(mine: list[float], theirs: list[float]) -> list[float]:
    return [mine_value / their_value for mine_value, their_value in zip(mine, theirs, strict=True)]


async def parts(rounds: int) -> dict[str, Sample]:
    """Microseconds of the functions that look at a credential."""
    key, record = new_key("bench", now=datetime.now(UTC))
    keys = ApiKeys([KeyFile(Path("here"))], time.time)
    keys.take_document("here", KeyDocument((record,)))
    opened, closed = Identities(), Identities([keys])
    header = f"Bearer {key}".encode()
    await closed.identify(header)
    samples = {
        "known: nobody is asked": _timed(lambda: opened.recall(None), rounds),
        "known: an API key or a token": _timed(lambda: closed.recall(header), rounds),
        "at first: an API key": _timed(lambda: keys.check(key), rounds),
    }
    for name, signer in (
        ("RS256", RSAKey.generate_key(2048, {"kid": "k"})),
        ("ES256", ECKey.generate_key("P-256", {"kid": "k"})),
    ):
        token, tokens = token_of(name, signer)
        samples[f"at first: a token, {name}"] = _timed(partial(tokens.check, token), rounds)
    return samples


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
    if settings.realtime:
        become_realtime()
    alone = asyncio.run(parts(max(settings.rounds, 3)))
    path = measured(settings)
    with Stage() as stage:
        return report(measure(stage, settings), path, alone)
