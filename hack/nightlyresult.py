"""Writes the result of the last whole night into the page on CI: `python hack/nightlyresult.py SECONDS TESTS…`.

`.ci/run` calls it at the end of a nightly run of all parts. TESTS are the numbers of each run of `hack/test`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "contribute" / "continuous-integration.md"
_LINE: Final = re.compile(r"(?<=<!-- the last whole night, written by \.ci/run -->\n).*")


def with_result(page: str, sentence: str) -> str:
    """The page with the new result. Raises ValueError if it has no line for a result."""
    changed, count = _LINE.subn(lambda _: sentence, page)
    if count != 1:
        raise ValueError(f"{PAGE.name} has {count} lines for the last night")
    return changed


def sentence_of(date: str, commit: str, seconds: int, tests: list[str]) -> str:
    """The result as one line of Markdown."""
    hours, minutes = divmod(seconds // 60, 60)
    return f"The last whole night: {date}, commit `{commit}`, {hours} h {minutes} min; {'; '.join(tests)}."


def main(seconds: str, *tests: str) -> None:
    """Write the line into the page, and print it."""
    described = ["git", "describe", "--always", "--dirty=+changes", "--abbrev=12", "--exclude=*"]
    commit = subprocess.run(described, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    sentence = sentence_of(datetime.now(UTC).date().isoformat(), commit, int(seconds), list(tests))
    PAGE.write_text(with_result(PAGE.read_text("utf-8"), sentence), "utf-8")
    print(sentence)


if __name__ == "__main__":
    main(*sys.argv[1:])
