"""Planning: a model and the tools that fit, of 1,000 candidates once counted, and what counting them costs.

The goal is about one plan; counting happens once per definition.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.counting import load_o200k
from fairlead_formats.tokens.fit import Candidate
from fairlead_formats.tokens.models import ContextWindows
from fairlead_formats.tokens.outcome import Plan, PlanRefused
from fairlead_formats.tokens.plan import plan
from fairlead_formats.tokens.routes import PlanLimits, RouteModel
from fairlead_formats.tokens.sizes import Sizes
from rig.definitions import definition
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, in_rounds

TOOLS = 1000


def timed(work: Callable[[], Plan | PlanRefused], times: int) -> tuple[float, float]:
    """Milliseconds of one run: the median and the 99th percentile."""
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        spent.append((time.perf_counter() - begun) * 1000)
    spent.sort()
    return spent[len(spent) // 2], spent[int(len(spent) * 0.99)]


def run(settings: Settings) -> Report:
    """One row per case."""
    counter = load_o200k()
    if counter is None:
        raise Unmeasurable("tiktoken is not installed, so that nothing is counted exactly")
    rng = random.Random(7)
    definitions = [definition(index, rng) for index in range(TOOLS)]
    report = Report("plan")
    sizes, begun = Sizes(counter), time.perf_counter()
    counted = [sizes.of(each) for each in definitions]
    rate = TOOLS / (time.perf_counter() - begun)
    tools = [
        Candidate(each["name"], size.tokens, size.short, pinned=index % 100 == 0)
        for index, (each, size) in enumerate(zip(definitions, counted, strict=True))
    ]
    windows = ContextWindows({"small": 16_000, "middle": 64_000})
    route = [RouteModel(name, windows.window(name)) for name in ("small", "middle", "gpt-4o", "claude-opus-5")]
    talk = ConversationTokens(500, 4000)
    cases: dict[str, Callable[[], Plan | PlanRefused]] = {
        "everything fits the third of 4 models": lambda: plan(route, tools, talk, PlanLimits(), "o200k"),
        "2 small models, pruned by the window": lambda: plan(route[:2], tools, talk, PlanLimits(), "o200k"),
        "4 models, maxTools 40": lambda: plan(route, tools, talk, PlanLimits(max_tools=40), "o200k"),
        "pruned, descriptions shortened": lambda: plan(route[:2], tools, talk, PlanLimits(shorten=True), "o200k"),
        "refused": lambda: plan(route[:1], tools, ConversationTokens(0, 40_000), PlanLimits(), "o200k"),
    }
    times = 50 if settings.quick else 400
    rounds = [{name: timed(work, times) for name, work in cases.items()} for _ in in_rounds(settings.rounds)]
    worst = 0.0
    for name in cases:
        medians, tails = (Sample.of(each[name][part] for each in rounds) for part in (0, 1))
        worst = max(worst, medians.median)
        report.rows.append({"case": name, "ms, median": medians, "ms, p99": tails})
    report.goals.append(Goal("a plan of 1,000 candidates, slowest case", worst, "ms", at_most=1))
    report.notes.append(
        f"counted once: {rate:,.0f} tools/s, each also with shortened descriptions; "
        f"{sum(size.tokens for size in counted) / TOOLS:.0f} tokens per tool"
    )
    return report
