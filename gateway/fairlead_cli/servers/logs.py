"""`fairlead logs`: prints the output of a server's processes, over restarts, and follows it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, printable, remark
from fairlead_cli.rest import ManagementClient
from fairlead_cli.servers.showing import sentence

POLL_SECONDS: Final = 0.5
LONGEST_PAUSE: Final = 5.0


def run_logs(
    destination: Destination, server: str, output: Output, *, tail: int | None, follow: bool, timestamps: bool
) -> None:
    """Print the stored lines, and with `follow` new lines until interrupted. Raises Failure."""
    client = ManagementClient.of(destination)
    path = f"/v1/logs/{quote(server, safe='/')}"
    page = client.get(path, **({} if tail is None else {"tail": str(tail)}))
    _show(page["lines"], output, timestamps)
    if not follow:
        if not page["lines"] and tail != 0:
            reason = sentence(client.get(f"/v1/servers/{quote(server, safe='/')}"))
            text = f"{page['server']} has no output: the gateway started no process of this server. {reason}"
            remark("logs", text.rstrip())
        return
    sys.stdout.flush()
    failures, after = 0, page["next"]
    while True:
        time.sleep(min(POLL_SECONDS * 2.0**failures, LONGEST_PAUSE))
        try:
            page = client.get(path, after=str(after))
            if page["next"] < after:  # the gateway restarted, and counts from 0 again
                page = client.get(path)
        except Failure as error:
            if error.code == USAGE_ERROR:  # the server is no longer declared
                raise
            failures = min(failures + 1, 10)
            if failures == 1:
                remark("logs", f"{error} Trying again.")
            continue
        failures, after = 0, page["next"]
        if page["missed"]:
            remark("logs", "some lines of the server's output were dropped before they could be shown.")
        _show(page["lines"], output, timestamps)


def _show(lines: list[dict[str, Any]], output: Output, timestamps: bool) -> None:
    for line in lines:
        print(json.dumps(line) if output is Output.json else _text(line, timestamps))
    sys.stdout.flush()


def _text(line: Mapping[str, Any], timestamps: bool) -> str:
    text = printable(str(line["text"]))
    if line["stream"] == "run":
        return f"--- run {line['run']} {text} at {printable(str(line['at']))}"
    return f"{printable(str(line['at']))} {text}" if timestamps else text
