"""Reasons of latency tiers as sentences. Pure module.

A reason is a word and figures (`over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time`), the same for
programs and people; the pages say it in full. One that is not understood stands as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead_console.formats import milliseconds

_BY: Final[Mapping[str, str]] = {
    "declared": "by what its server declares; nothing was measured yet",
    "recent": "by its last calls",
    "window": "by all calls of its window",
    "score": "by calls that were late again and again",
}


def reason_in_words(reason: str) -> str:
    """The sentence."""
    word, _, rest = reason.partition(" ")
    if reason == "fits no-limit":
        return "The tier has no limit."
    pairs = [part.partition("=") for part in rest.split()]
    figures = {key: value for key, equals, value in pairs if equals}
    return _SENTENCES[word](figures) or reason if word in _SENTENCES else reason


def _below_min_tier(figures: Mapping[str, str]) -> str:
    if "min_tier" not in figures:
        return ""
    source = _source(figures.get("by", ""))
    return f"However fast it is, no tier faster than {figures['min_tier']} may show it ({source})."


def _why_degraded(figures: Mapping[str, str]) -> str:
    if "failures" not in figures:
        return ""
    failures = figures["failures"].replace("/", " of its last ")
    return _join(f"Moved to a slower tier: {failures} calls failed.", _back(figures))


def _why_unmeasured(figures: Mapping[str, str]) -> str:
    return _join("Nothing was measured of it yet.", _back(figures)) if _limit(figures) else ""


def _over_budget(figures: Mapping[str, str]) -> str:
    limit = _limit(figures)
    slow = f"Too slow: {_measurement(figures)}, and the tier allows {limit}{_basis(figures)}."
    return _join(slow, _late(figures), _back(figures)) if limit else ""


def _fits(figures: Mapping[str, str]) -> str:
    limit = _limit(figures)
    if limit and not _duration_in_words(figures):
        return f"Nothing is known of it yet: the tier, which allows {limit}, shows such tools."
    in_time = f"In time: {_measurement(figures)}, and the tier allows {limit}."
    return _join(in_time, _late(figures), _hides(figures)) if limit else ""


_SENTENCES: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {
    "below_min_tier": _below_min_tier,
    "degraded": _why_degraded,
    "unmeasured": _why_unmeasured,
    "over_budget": _over_budget,
    "fits": _fits,
}
"""Sentence by word of a reason; empty where figures lack that it needs."""


def _limit(figures: Mapping[str, str]) -> str:
    return _duration(figures.get("tier", ""))


def _join(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _duration(text: str) -> str:
    number = text.removesuffix("ms")
    return milliseconds(float(number)) if number.isdecimal() else ""


def _duration_in_words(figures: Mapping[str, str]) -> str:
    """Its duration as it was measured or declared; empty where it is not known."""
    for key in ("p50", "p90", "p95", "p99"):
        if duration := _duration(figures.get(key, "")):
            return f"its {key} is {duration}"
    duration = _duration(figures.get("estimated", ""))
    return f"it is declared with {duration}" if duration else ""


def _measurement(figures: Mapping[str, str]) -> str:
    return _duration_in_words(figures) or "nothing is known of it yet"


def _basis(figures: Mapping[str, str]) -> str:
    words = _BY.get(figures.get("by", ""), "")
    return f" ({words})" if words else ""


def _late(figures: Mapping[str, str]) -> str:
    late, slash, calls = figures.get("late", "").partition("/")
    return f"{late} of its last {calls} calls took longer." if slash else ""


def _back(figures: Mapping[str, str]) -> str:
    back = figures.get("back", "")
    number = "".join(filter(str.isdecimal, back))
    if back.startswith("trial-in-"):
        return f"It is tried again in {number} s."
    kind = {"in-time": "in time", "good": "without a failure"}.get(back.partition("-")[2])
    return f"It comes back after {number} calls {kind}." if number and kind else ""


def _hides(figures: Mapping[str, str]) -> str:
    calls = figures.get("hides-at", "")
    return f"It is hidden from {calls} late ones on." if calls.isdecimal() else ""


def _source(by: str) -> str:
    return {"mcpserver": "its server says so", "policy": "a policy says so"}.get(by, by or "so it is set")
