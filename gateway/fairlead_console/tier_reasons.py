"""Reasons of latency tiers as sentences. Pure module.

A reason is a word and figures (`over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time`), the same for
programs and people; the pages say it in full. One that is not understood stands as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    pairs = [part.partition("=") for part in rest.split()]
    figures = {key: value for key, equals, value in pairs if equals}
    limit = _duration(figures.get("tier", ""))
    if word == "below_min_tier" and "min_tier" in figures:
        source = _source(figures.get("by", ""))
        return f"However fast it is, no tier faster than {figures['min_tier']} may show it ({source})."
    if word == "degraded" and "failures" in figures:
        return _joined(
            f"Moved to a slower tier: {figures['failures'].replace('/', ' of its last ')} calls failed.", _back(figures)
        )
    if word == "unmeasured" and limit:
        return _joined("Nothing was measured of it yet.", _back(figures))
    if word == "over_budget" and limit:
        return _joined(
            f"Too slow: {_measured(figures)}, and the tier allows {limit}{_basis(figures)}.",
            _late(figures),
            _back(figures),
        )
    if word == "fits" and rest == "no-limit":
        return "The tier has no limit."
    if word == "fits" and limit:
        return _joined(f"In time: {_measured(figures)}, and the tier allows {limit}.", _late(figures), _hides(figures))
    return reason


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _duration(text: str) -> str:
    number = text.removesuffix("ms")
    return milliseconds(float(number)) if number.isdecimal() else ""


def _measured(figures: Mapping[str, str]) -> str:
    for key in ("p50", "p90", "p95", "p99"):
        if measured := _duration(figures.get(key, "")):
            return f"its {key} is {measured}"
    measured = _duration(figures.get("estimated", ""))
    return f"it is declared with {measured}" if measured else "nothing is known of it yet"


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
