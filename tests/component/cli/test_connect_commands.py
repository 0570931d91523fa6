"""The commands of docs/connect/clients.md, run unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from page_reader import blocks

PAGE = Path(__file__).parents[3] / "docs/connect/clients.md"


def test_a_client_is_set_up_with_a_key_as_the_page_says(tmp_path: Path) -> None:
    block = blocks(PAGE.read_text("utf-8"), "sh")[0]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euc", block],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    entry = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]["fairlead"]
    assert entry["url"] == "https://tools.example.com/mcp"
    key = (tmp_path / "me.key").read_text().strip()
    assert key not in (tmp_path / ".claude.json").read_text()
