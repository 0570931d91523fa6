"""Losses of a provider's format are printed as one line per kind, or tool by tool."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_cli.models.printed_tools import print_tools_and_losses, summary
from fairlead_cli.output import Output


def loss(tool: str, keyword: str = "annotations", action: str = "dropped", why: str = "it has none") -> dict[str, Any]:
    return {"tool": tool, "path": f"/{keyword}", "keyword": keyword, "action": action, "why": why}


MANY = [loss(f"t{number}") for number in range(300)]


def test_a_line_stands_for_all_losses_of_one_kind() -> None:
    report = [*MANY, loss("t1", "title"), loss("t2", "oneOf", "widened", "one"), loss("t2", "oneOf", "widened", "one")]
    assert [*summary(report)] == [
        "annotations dropped in 300 tools: it has none (t0, t1, t2 and 297 more)",
        "t1/title: title dropped: it has none",
        "oneOf widened 2 times in 1 tool: one (t2)",
        "pass --losses to list all losses",
    ]


def test_each_tool_that_is_refused_is_named() -> None:
    report = [loss("a", "name", "refused", "too long"), loss("b", "name", "refused", "too long")]
    assert [*summary(report)] == ["a/name: name refused: too long", "b/name: name refused: too long"]


@pytest.mark.parametrize(("losses", "lines"), [(True, 300), (False, 2)])
def test_losses_are_named_tool_by_tool_where_that_is_asked_for(
    losses: bool, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten = loss("t", action="rewritten")
    print_tools_and_losses("tools", {"tools": [], "report": [*MANY, rewritten]}, Output.table, losses=losses)
    printed = capsys.readouterr()
    assert printed.out == "[]\n"
    assert len(printed.err.splitlines()) == lines
