"""Which calls of models are matched to tools in the event loop."""

from __future__ import annotations

from pathlib import Path

from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_offers.run.requested_calls import MAX_MATCHED_AT_ONCE, can_match_at_once
from gatewayworld import catalog, running


async def test_few_calls_of_tools_that_were_called_before_are_matched_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", ["add"])) as gateway:
        catalogs = gateway.rest.services.catalogs
        tool = catalogs.visible_tools(catalogs.seen_by(ANONYMOUS), None).find("demo__add")
        assert tool is not None
        assert not can_match_at_once([tool]), "its definition is not decoded yet"
        assert tool.other_names == {}
        assert can_match_at_once([tool] * MAX_MATCHED_AT_ONCE)
        assert not can_match_at_once([tool] * (MAX_MATCHED_AT_ONCE + 1))
        assert not can_match_at_once([tool, None]), "a name that is not that of a tool"
