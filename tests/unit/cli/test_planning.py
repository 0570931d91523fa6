"""`fairlead plan` says how many tools a model gets and loses; hundreds of names are for programs."""

from __future__ import annotations

from fairlead_cli.models.planning import tool_lines


def test_many_tools_are_counted_and_a_few_of_them_named() -> None:
    names = {f"t{number:03}": f"t{number:03}" for number in range(345)}
    answer = {
        "offer": {"names": names},
        "cut": [{"name": f"c{number}", "reason": "maxTools", "tokens": 10} for number in range(3)],
        "offline": ["away__x"],
    }
    lines = [*tool_lines(answer, ["t344"])]
    assert lines[0].startswith("345 tools offered: t344, t000, ")
    assert lines[0].endswith(" and 337 more")
    assert lines[1:] == ["3 tools cut (maxTools, 30 tokens): c0, c1, c2", "1 tool offline: away__x"]
