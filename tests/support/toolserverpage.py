"""Files and commands of the page about writing a tool server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = (Path(__file__).parents[2] / "docs" / "configure" / "tool-server.md").read_text()
_BLOCK: Final = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_FILE: Final = re.compile(r"`(harbor/[\w.]+)`[^\n]*:\n\n```\w+\n(.*?)```", re.DOTALL)


def write_files(folder: Path) -> None:
    """Write the files of the page below `folder`."""
    files = _FILE.findall(PAGE)
    assert [name for name, _ in files] == [
        "harbor/server.py",
        "harbor/mcp.json",
        "harbor/Dockerfile",
        "harbor/server.yaml",
    ]
    for name, text in files:
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


def blocks(section: str) -> list[tuple[str, str]]:
    """Language and text of each block of a section, in its order."""
    (text,) = [part for part in PAGE.split("\n## ") if part.startswith(section)]
    return _BLOCK.findall(text)
