"""Guards of what one principal may hold or cause, so that something is left for all others: see `guards`."""

from __future__ import annotations

from product_guard import GATEWAY, Guard

SHARES = (
    Guard(
        "a crowd of denied calls that pushes the lines of others out of the audit log",
        f"{GATEWAY}.audit.repeats",
        (("if entry.decision not in _SUMMED:", "if True:"),),
        "tests/unit/gateway/test_repeated_denials.py::"
        "test_a_crowd_of_denials_is_ten_lines_and_one_that_says_how_many_more",
        "== 0",
    ),
    Guard(
        "a denied call that the caller's own crowd of denials hides",
        f"{GATEWAY}.audit.repeats",
        (("key += (str(entry.server), entry.tool)", "pass"),),
        "tests/unit/gateway/test_repeated_denials.py::"
        "test_a_crowd_of_denials_of_one_tool_hides_no_other_tool_and_no_other_agent",
        "assert 0 == 1",
    ),
)
