"""The parts of the page about writing a tool server that need no cluster."""

from __future__ import annotations

import sys
from pathlib import Path

from commands import fairlead
from toolserverpage import blocks, write_files
from upprocess import fairlead_up


async def test_the_server_of_the_page_answers_as_the_page_says(tmp_path: Path) -> None:
    write_files(tmp_path)
    config = tmp_path / "harbor" / "mcp.json"
    config.write_text(config.read_text().replace("python3", sys.executable))
    start, calls, level, wrong, expected = [text for kind, text in blocks("A server") if kind in ("sh", "text")]
    assert start == "fairlead up harbor/mcp.json\n"
    async with fairlead_up("harbor/mcp.json", cwd=tmp_path) as up:
        await up.ready("default/harbor")
        listing, call = (line.split()[1:] for line in calls.splitlines())
        code, printed, errors = await fairlead(*listing, FAIRLEAD_URL=up.url)
        assert (code, "harbor__water_level" in printed) == (0, True), errors
        code, printed, errors = await fairlead(*call, FAIRLEAD_URL=up.url)
        assert (code, printed) == (0, level), errors
        code, printed, errors = await fairlead(*wrong.split()[1:], FAIRLEAD_URL=up.url)
        assert code != 0
        assert expected.strip() in printed + errors
