"""`fairlead events`: follows the events of servers and tools, and reconnects after outages of the gateway."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.output import MAX_NAMED, Output, printable, remark
from fairlead_cli.rest import ManagementClient

QUIET_SECONDS: Final = 60.0
"""Silence after which a connection counts as dead; longer than a few heartbeats."""
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 15.0
"""Limits on the random pauses between attempts to reconnect, in seconds."""


def run_events(destination: Destination, output: Output, tail: int) -> None:
    """Print the last `tail` events, then new events until interrupted. Raises Failure if the first connection fails."""
    client = ManagementClient.of(destination)
    last_event_id, failures = None, 0
    path = f"/v1/events?tail={tail}" if tail else "/v1/events"
    while True:
        try:
            for event in _events(client.lines(path, QUIET_SECONDS, last_event_id)):
                if last_event_id is None and output is not Output.json:
                    remark("events", f"connected to {destination.url}; waiting for events, Ctrl-C ends the command")
                last_event_id, failures = str(event.get("id")), 0
                _show(event, output)
        except Failure as error:
            if last_event_id is None:
                raise
            failures += 1
            remark("events", f"{error} Trying again.")
        time.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 10)) * (1 - random.random() / 2))


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data:"):
            try:
                event = json.loads(line[5:])
            except (ValueError, RecursionError) as error:
                raise Failure("an event is not JSON: check the address in --url.") from error
            if isinstance(event, dict):
                yield event


def _show(event: dict[str, Any], output: Output) -> None:
    if output is Output.json:
        print(json.dumps(event), flush=True)
    elif (line := line_of(event)) is not None:
        print(line, flush=True)


def line_of(event: dict[str, Any]) -> str | None:
    """An event as a line of text; None for events that are not shown."""
    type_ = event.get("type")
    if type_ == "stream.opened":
        return "Some events were missed: `fairlead tools` shows the current tools." if event.get("missed") else None
    if type_ == "catalog.swapped":
        return None
    if event.get("file"):
        outcome = f"rejected {event.get('message', '')}" if type_ == "file.rejected" else f"accepted {event['file']}"
        return printable(f"{_local_time(event)} {outcome}")
    parts = [_local_time(event), str(event.get("server", "")), str(type_).partition(".")[2]]
    if event.get("reason"):
        parts.append(f"({event['reason']})")
    unlisted_count = int(event.get("more", 0))
    for sign, member in (("+", "added"), ("-", "removed"), ("~", "changed")):
        names = event.get(member, ())
        parts += [f"{sign}{name}" for name in names[:MAX_NAMED]]
        unlisted_count += len(names[MAX_NAMED:])
    if unlisted_count:
        parts.append(f"and {unlisted_count} more")
    return printable(" ".join(parts))


def _local_time(event: dict[str, Any]) -> str:
    """Time of an event in this machine's time zone, as `fairlead up` prints it; with the date if that is not today."""
    try:
        at = datetime.fromisoformat(str(event.get("at", ""))).astimezone()
    except ValueError:
        return ""
    return at.strftime("%H:%M:%S" if at.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M:%S")
