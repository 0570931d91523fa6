"""The table of a call's stages on its page agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead_gateway.calls.path.client_call import STAGES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "calls.md"


def test_the_table_of_the_page_has_the_stages_in_their_order() -> None:
    steps = re.findall(r"^\| (\w+) \|", PAGE.read_text().split("## When the client goes away")[0], re.MULTILINE)
    between = steps[steps.index("wait") + 1 : steps.index("breaker")]
    assert between == [stage.__name__ for stage in STAGES]
