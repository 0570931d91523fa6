"""Costs of latency tiers: choosing one for a long transcript, and timing an attempt on the path of a call.

The transcripts have 2,000 characters; one contains no phrase, the other many, like real speech. The 100 phrases are the
first of the shipped ones. The meter is `reports.samples`: one attempt begun and ended, the clock read by the caller.
The operator's work for a sample (window, scores, health), and for each second without a call, does not delay calls; it
is reported separately.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from typing import Final

from fairlead_api.documents.rules import Tier, TierSelection
from fairlead_api.meta import ServerKey
from fairlead_api.reports import OK
from fairlead_gateway.conversation.choose import Chooser
from fairlead_gateway.conversation.shipped_words import words_of
from fairlead_gateway.conversation.turn import ConversationState, Turn
from fairlead_gateway.reports.samples import SampleLog
from fairlead_operator.latency.ledger import Ledger, ToolKey
from fairlead_operator.latency.samples import AttemptOutcome
from fairlead_operator.latency.samples import Sample as Measured
from fairlead_operator.latency.tool_record import Declaration, ToolRecord
from fairlead_operator.publish.compile import compile_rules
from gatewayworld import catalog
from rig.harness import Goal, Report, Sample, Settings

CHARACTERS: Final = 2000
PHRASES: Final = 100
FLEET: Final = 10_000
TOOLS_OF_A_SERVER: Final = 10
WORDS: Final = "the boat lay by the quay and nobody had seen the ferryman since the rain began "
TALK: Final = (
    "I was talking to my brother and he said that we should compare the two offers before the end of the month, and "
    "then I thought about the house and why the roof still leaks, can you find out what the roofer said last time and "
    "whether the warranty still holds, add a note about the roof, and is there any booking for according to him it is. "
)
TIERS: Final = (Tier(name="fast", max_latency_ms=500), Tier(name="deep", max_latency_ms=4000))


def choosing(words: str, *, every: bool = False) -> Callable[[], object]:
    """Choose a tier for a transcript of these words; with `every`, by all shipped phrases."""
    tiers = compile_rules([], [], {}).tiers
    if not every:
        shipped = [phrase for tier in tiers for phrase in words_of(tier)[0]][:PHRASES]
        deep = Tier(name="deep", selection=TierSelection(keywords=tuple(shipped)))
        tiers = (Tier(name="fast", default=True), deep)
    chooser, state = Chooser(tiers), ConversationState()
    turn = Turn(text=(words * (CHARACTERS // len(words) + 1))[:CHARACTERS], number=4)
    return lambda: chooser.choose(turn, state, 1000.0)


def metering() -> Callable[[], object]:
    """Begin an attempt and end it in time."""
    log = SampleLog()
    log.set_late_ms(500.0)
    meter = log.meter(ServerKey("default", "shop"), "knot")
    return lambda: meter.end(meter.begin(1.0), 1.1, OK)


def judging() -> Callable[[], object]:
    """Have the operator process one sample. Every fiftieth is late, so that the tool stays listed."""
    record = ToolRecord(TIERS, Declaration(), now=0.0)
    samples = [Measured(str(n), 0.0, 800.0 if n % 50 == 0 else 100.0 + n, AttemptOutcome.OK) for n in range(1, 101)]
    endless = cycle(samples)
    return lambda: record.observe(next(endless))


def idling() -> Callable[[], object]:
    """Run one round of decisions for a fleet of measured tools, none of which was called since the last round."""
    ledger = Ledger(TIERS)
    for server in range(FLEET // TOOLS_OF_A_SERVER):
        shop = catalog(f"shop{server}", "http://127.0.0.1:1/mcp", [f"tool{n}" for n in range(TOOLS_OF_A_SERVER)])
        ledger.take_catalog(shop, 0.0)
        for entry in shop.tools:
            samples = [Measured(f"{n}", 0.0, 100.0 + n, AttemptOutcome.OK) for n in range(20)]
            ledger.add_samples(ToolKey(shop.key, entry.name, "cluster"), samples, 0.0)
    ledger.decide(0.0)
    for state in ledger.due_documents(0.0, ""):
        ledger.take_stored(state, 0.0)
    return lambda: (ledger.decide(100.0), ledger.due_documents(100.0, ""))


def microseconds(work: Callable[[], object], times: int) -> float:
    """Average microseconds of one run."""
    begun = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begun) / times * 1e6


def run(settings: Settings) -> Report:
    """One row per part."""
    times = 2_000 if settings.quick else 20_000
    cases = {
        f"choose a tier ({CHARACTERS:,} characters, {PHRASES} phrases, none of them said)": (choosing(WORDS), 50),
        f"choose a tier ({CHARACTERS:,} characters, {PHRASES} phrases, some of them said)": (choosing(TALK), 50),
        f"choose a tier ({CHARACTERS:,} characters, all phrases that ship)": (choosing(TALK, every=True), None),
        "time an attempt (gateway, path of a call)": (metering(), 3),
        "take a sample (operator)": (judging(), None),
        f"a round over {FLEET:,} tools that nobody calls (operator)": (idling(), None),
    }
    rounds = [{name: microseconds(work, times) for name, (work, _) in cases.items()} for _ in range(settings.rounds)]
    report = Report("choice")
    for name, (_, most) in cases.items():
        cost = Sample.of(each[name] for each in rounds)
        report.rows.append({"part": name, "µs": cost})
        if most is not None:
            report.goals.append(Goal(name, cost.median, "µs", at_most=most))
    return report
