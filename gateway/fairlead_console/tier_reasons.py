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
    said = {key: value for key, equals, value in pairs if equals}
    limit = _duration(said.get("tier", ""))
    if word == "below_min_tier" and "min_tier" in said:
        return f"However fast it is, no tier faster than {said['min_tier']} may show it ({_place(said.get('by', ''))})."
    if word == "degraded" and "failures" in said:
        return _joined(
            f"Moved to a slower tier: {said['failures'].replace('/', ' of its last ')} calls failed.", _back(said)
        )
    if word == "unmeasured" and limit:
        return _joined("Nothing was measured of it yet.", _back(said))
    if word == "over_budget" and limit:
        return _joined(
            f"Too slow: {_measured(said)}, and the tier allows {limit}{_basis(said)}.", _late(said), _back(said)
        )
    if word == "fits" and rest == "no-limit":
        return "The tier has no limit."
    if word == "fits" and limit and not _known(said):
        return f"Nothing is known of it yet: the tier, which allows {limit}, shows such tools."
    if word == "fits" and limit:
        return _joined(f"In time: {_measured(said)}, and the tier allows {limit}.", _late(said), _hides(said))
    return reason


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _duration(text: str) -> str:
    number = text.removesuffix("ms")
    return milliseconds(float(number)) if number.isdecimal() else ""


def _known(said: Mapping[str, str]) -> str:
    """Its duration as it was measured or declared; empty where it is not known."""
    for key in ("p50", "p90", "p95", "p99"):
        if found := _duration(said.get(key, "")):
            return f"its {key} is {found}"
    found = _duration(said.get("estimated", ""))
    return f"it is declared with {found}" if found else ""


def _measured(said: Mapping[str, str]) -> str:
    return _known(said) or "nothing is known of it yet"


def _basis(said: Mapping[str, str]) -> str:
    words = _BY.get(said.get("by", ""), "")
    return f" ({words})" if words else ""


def _late(said: Mapping[str, str]) -> str:
    late, slash, calls = said.get("late", "").partition("/")
    return f"{late} of its last {calls} calls took longer." if slash else ""


def _back(said: Mapping[str, str]) -> str:
    back = said.get("back", "")
    number = "".join(filter(str.isdecimal, back))
    if back.startswith("trial-in-"):
        return f"It is tried again in {number} s."
    kind = {"in-time": "in time", "good": "without a failure"}.get(back.partition("-")[2])
    return f"It comes back after {number} calls {kind}." if number and kind else ""


def _hides(said: Mapping[str, str]) -> str:
    calls = said.get("hides-at", "")
    return f"It is hidden from {calls} late ones on." if calls.isdecimal() else ""


def _place(by: str) -> str:
    return {"mcpserver": "its server says so", "policy": "a policy says so"}.get(by, by or "so it is set")
