"""The page about credentials explains each cause for which a call gets no access token."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead_mcp.oauth.errors import GRANT_CAUSES

PAGE = Path(__file__).parents[2] / "docs" / "configure" / "credentials.md"


def test_the_table_of_causes_has_each_cause_of_a_call_without_a_token_and_no_other() -> None:
    table = PAGE.read_text("utf-8").partition("| cause | look at |\n")[2].partition("\n\n")[0]
    causes = [cause for row in table.splitlines() for cause in re.findall(r"`(\w+)`", row.split(" | ")[0])]
    assert sorted(causes) == sorted(GRANT_CAUSES)
