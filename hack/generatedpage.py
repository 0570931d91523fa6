"""The command line of programs that generate one page: `[--check] FILE`, as `hack/gen` runs them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def run(page: Callable[[str], str], arguments: Sequence[str] | None = None) -> int:
    """Write the page that is generated from the file's current content, or check it. Returns 0, or 1 if it is out of
    date.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file differs")
    parser.add_argument("file", type=Path)
    given = parser.parse_args(arguments)
    there = given.file.read_text("utf-8") if given.file.exists() else ""
    text = page(there)
    if text == there:
        return 0
    if given.check:
        print(f"{given.file} is not as generated; run hack/gen", file=sys.stderr)
        return 1
    given.file.write_text(text, "utf-8")
    print(given.file)
    return 0
