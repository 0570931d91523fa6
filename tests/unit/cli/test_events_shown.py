"""Lines of `fairlead events`: short whatever the server's names are, with times in the local time zone."""

from __future__ import annotations

import time

import pytest

from fairlead_cli.servers.events import line_of

AT = "2026-11-21T05:00:03.481+00:00"


def test_many_tools_of_an_event_are_counted_and_a_few_of_them_named() -> None:
    names = [f"t{number:02}" for number in range(46)]
    line = line_of({"type": "tools.changed", "at": AT, "server": "default/x", "added": names, "more": 5})
    assert line is not None
    assert line.endswith("default/x changed +t00 +t01 +t02 +t03 +t04 +t05 +t06 +t07 and 43 more")


def test_an_event_of_another_day_has_its_date_in_the_time_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        line = line_of({"type": "server.connected", "at": AT, "server": "default/x"})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert line == "2026-11-21 10:30:03 default/x connected"


def test_files_that_are_rejected_and_accepted_are_lines() -> None:
    rejected = {"type": "file.rejected", "at": AT, "file": "a.json", "message": "a.json:2:1: not valid JSON"}
    assert (line_of(rejected) or "").endswith(" rejected a.json:2:1: not valid JSON")
    assert (line_of({"type": "file.accepted", "at": AT, "file": "a.json"}) or "").endswith(" accepted a.json")
