"""Translates the reasons why latency tiers show or hide a tool to sentences. No I/O.

A reason is a word with values, such as `over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time`. An unknown
reason is shown unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead_console.formats import milliseconds

_BASES: Final[Mapping[str, str]] = {
    "declared": "by what its server declares; nothing was measured yet",
    "recent": "by its last calls",
    "window": "by all calls of its window",
    "score": "by repeatedly late calls",
}


def reason_in_words(reason: str) -> str:
    """Translate a reason to sentences."""
    word, _, rest = reason.partition(" ")
    if reason == "fits no-limit":
        return "The tier has no limit."
    pairs = [part.partition("=") for part in rest.split()]
    values = {key: value for key, equals, value in pairs if equals}
    return _SENTENCES[word](values) or reason if word in _SENTENCES else reason


def _below_min_tier(values: Mapping[str, str]) -> str:
    if "min_tier" not in values:
        return ""
    source = _source(values.get("by", ""))
    return f"No tier faster than {values['min_tier']} may show the tool, however fast the tool is ({source})."


def _why_degraded(values: Mapping[str, str]) -> str:
    if "failures" not in values:
        return ""
    failures = values["failures"].replace("/", " of its last ")
    return _join(f"Moved to a slower tier: {failures} calls failed.", _back(values))


def _why_unmeasured(values: Mapping[str, str]) -> str:
    return _join("It was not measured yet.", _back(values)) if _limit(values) else ""


def _over_budget(values: Mapping[str, str]) -> str:
    limit = _limit(values)
    description = _duration_in_words(values) or "none of its calls succeeded in time"
    verdict = f"Too slow: {description}, and the tier allows {limit}{_basis(values)}."
    return _join(verdict, _late(values), _back(values)) if limit else ""


def _fits(values: Mapping[str, str]) -> str:
    limit = _limit(values)
    if limit and not _duration_in_words(values):
        return f"Its duration is not known yet: the tier, which allows {limit}, shows such tools."
    beginning = "Late, but not often enough to be hidden" if _is_over_limit(values) else "In time"
    verdict = f"{beginning}: {_duration_in_words(values)}, and the tier allows {limit}."
    return _join(verdict, _late(values), _hides(values)) if limit else ""


_SENTENCES: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {
    "below_min_tier": _below_min_tier,
    "degraded": _why_degraded,
    "unmeasured": _why_unmeasured,
    "over_budget": _over_budget,
    "fits": _fits,
}
"""Functions that make the sentences, by word of the reason; they return an empty text if a value is missing."""


def _limit(values: Mapping[str, str]) -> str:
    return _duration(values.get("tier", ""))


def _join(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _duration(text: str) -> str:
    number = text.removesuffix("ms")
    return milliseconds(float(number)) if number.isdecimal() else ""


def _duration_in_words(values: Mapping[str, str]) -> str:
    """Describe the measured or declared duration of the tool; empty if it is unknown."""
    for key in ("p50", "p90", "p95", "p99"):
        if duration := _duration(values.get(key, "")):
            return f"its {key} is {duration}"
    duration = _duration(values.get("estimated", ""))
    return f"its declared duration is {duration}" if duration else ""


def _is_over_limit(values: Mapping[str, str]) -> bool:
    """Whether the measured duration is above the tier's limit."""
    duration = next((values[key] for key in ("p50", "p90", "p95", "p99") if key in values), "")
    return bool(_duration(duration) and _limit(values)) and int(duration[:-2]) > int(values["tier"][:-2])


def _basis(values: Mapping[str, str]) -> str:
    words = _BASES.get(values.get("by", ""), "")
    return f" ({words})" if words else ""


def _late(values: Mapping[str, str]) -> str:
    late_calls, slash, calls = values.get("late", "").partition("/")
    return f"{late_calls} of its last {calls} calls took longer." if slash else ""


def _back(values: Mapping[str, str]) -> str:
    condition = values.get("back", "")
    number = "".join(filter(str.isdecimal, condition))
    if condition.startswith("trial-in-"):
        return f"It is tried again in {number} s."
    quality = {"in-time": "in time", "good": "without a failure"}.get(condition.partition("-")[2])
    return f"It returns after {number} calls {quality}." if number and quality else ""


def _hides(values: Mapping[str, str]) -> str:
    calls = values.get("hides-at", "")
    return f"It will be hidden after {calls} late calls." if calls.isdecimal() else ""


def _source(by: str) -> str:
    return {"mcpserver": "set by its server", "policy": "set by a policy"}.get(by, by or "set by configuration")
