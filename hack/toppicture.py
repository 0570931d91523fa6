"""Makes the screenshot of `fairlead top`. Run by `hack/screenshots`, which describes the options.

python hack/toppicture.py FILE
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Final

from consoleshowcase import KINDS, VERBS, record_calls, showcase
from fairlead_cli.connecting import Destination
from fairlead_cli.rest import ManagementClient
from fairlead_cli.top.application import TopApp
from fairlead_cli.top.reading import read
from fairlead_cli.top.sort_key import SortKey

PORT: Final = 8080
"""Fixed, because the screen shows it."""
URL: Final = f"http://127.0.0.1:{PORT}/mcp"
SIZE: Final = (108, 30)
"""Columns and lines."""
INTERVAL: Final = 2.0
READINGS: Final = 3
"""Readings until the rate of calls is known."""
FONTS: Final = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)
"""Rules that load fonts from the web, which the documentation does not do."""
NUMBERS: Final = re.compile(r"terminal-\d+-")


async def picture() -> str:
    """The screen as SVG, while the tools of a gateway are called. Raises PortTaken."""
    with tempfile.TemporaryDirectory() as documents:
        async with showcase(Path(documents), port=PORT) as gateway:
            client = ManagementClient.of(Destination.parse(URL, [], None, 10))
            first = await asyncio.to_thread(read, client)
            app = TopApp(client, URL, SortKey.calls, INTERVAL, first)
            async with app.run_test(size=SIZE) as pilot:
                for _ in range(READINGS):
                    for server, nouns in islice(KINDS.items(), 6):
                        record_calls(gateway, server, f"{VERBS[1]}_{nouns[0]}")
                    await pilot.pause(INTERVAL)
                svg = app.export_screenshot(title="fairlead top")
    return NUMBERS.sub("top-", FONTS.sub("", svg))


def main() -> None:
    """Write the file that the command line names."""
    Path(sys.argv[1]).write_text(asyncio.run(picture()) + "\n", "utf-8")


if __name__ == "__main__":
    main()
