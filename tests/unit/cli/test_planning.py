"""`fairlead plan` prints how many tools a model gets and loses, and names only a few of them."""

from __future__ import annotations

from typing import Any

from fairlead_cli.models.planning import outcome_of, tool_lines, window_lines


def test_many_tools_are_counted_and_a_few_of_them_named() -> None:
    names = {f"t{number:03}": f"t{number:03}" for number in range(345)}
    answer = {
        "offer": {"names": names},
        "cut": [{"name": f"c{number}", "reason": "maxTools", "tokens": 10} for number in range(3)],
        "offline": ["away__x"],
        "numbers": {"toolFactor": 1.5},
    }
    lines = [*tool_lines(answer, ["t344"])]
    assert lines[0].startswith("345 tools offered: t344, t000, ")
    assert lines[0].endswith(" and 337 more")
    assert lines[1:] == ["3 tools cut (maxTools, 45 tokens): c0, c1, c2", "1 tool offline: away__x"]


def test_a_plan_says_what_the_window_holds_and_calls_a_guess_so() -> None:
    numbers: dict[str, Any] = {
        "available": 837873,
        "contextWindow": 1000000,
        "toolTokens": 158031,
        "systemPromptTokens": 0,
        "messageTokens": 12,
        "reservedOutputTokens": 4096,
    }
    answer = {"model": "m", "offer": {"format": "anthropic"}, "numbers": numbers}
    first, second = window_lines(answer)
    assert first == "m (anthropic): 837,873 of 1,000,000 tokens are left"
    assert second == "  tools 158,031, system prompt 0, messages 12, reserved 4,096"
    numbers["maxInput"] = 995_905
    assert [*window_lines(answer)] == [first, second]
    numbers["maxInput"] = 900_000
    limited = [*window_lines(answer)]
    assert limited == [first, "  a prompt may have 900,000 of them, the rest is for output", second]
    numbers["windowSource"] = "default"
    assert [*window_lines(answer)][1].startswith(
        "  the window of this model is unknown, so a small window is assumed; "
    )


def test_a_way_that_is_over_a_limit_of_tools_is_not_said_to_be_too_long() -> None:
    numbers = {"contextWindow": 1_000_000, "reservedOutputTokens": 4096}
    few, many = ({"fits": False, "largestPrompt": size} for size in (898, 999_000))
    best = {"fits": True, "largestPrompt": 1}
    assert outcome_of(few, best, numbers) == "exceeds the limit on tools"
    assert outcome_of(many, best, numbers) == "does not fit the window"
    assert outcome_of(best, best, numbers) == "cheapest"
