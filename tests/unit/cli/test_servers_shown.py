"""Output of `fairlead servers` for each server, and hints at starting servers that may have a missing tool."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.reasons import EXPLANATIONS
from fairlead_cli.access.can import decision_lines
from fairlead_cli.servers.refresh import timeout_reason
from fairlead_cli.servers.showing import details, row
from fairlead_cli.servers.starting import lines_about, may_have_tool, server_names

READY: dict[str, Any] = {
    "server": "default/time",
    "state": "ready",
    "prefix": "time",
    "tools": 2,
    "p95Ms": 1234.4,
    "restarts": 1,
    "rssBytes": 111_400_000,
    "lastWords": "listening",
}
FAILED: dict[str, Any] = {
    "server": "default/mail",
    "state": "failed",
    "prefix": "mail",
    "reason": "StartFailed",
    "cause": "StartFailed",
    "message": "default/mail exited with code 1: no key\x1b[2J",
    "lastWords": "no key",
    "restarts": 4,
}
STARTS: dict[str, Any] = {
    "server": "default/slow",
    "state": "starting",
    "prefix": "slow",
    "reason": "Pending",
    "cause": "Deploying",
    "message": "the server's process is starting",
    "lastWords": "downloading",
}
SILENT: dict[str, Any] = {**STARTS, "cause": "Silent", "message": "it has printed nothing for 10 s"}


def test_figures_of_servers_have_units_and_unknown_ones_are_a_dash() -> None:
    assert row(READY) == ("default/time", "ready", "2", "1,234 ms", "1", "111 MB", "")
    assert row(FAILED) == ("default/mail", "failed", "-", "-", "4", "-", "StartFailed")
    assert row({"server": "a/b", "state": "starting"}) == ("a/b", "starting", "-", "-", "-", "-", "")


def test_a_server_that_its_caller_has_to_sign_in_at_says_why_and_how() -> None:
    wanted = {**READY, "signIn": "you have not signed in at default/time"}
    assert row(wanted) == ("default/time", "sign-in", "2", "1,234 ms", "1", "111 MB", "SignInRequired")
    assert details([wanted]) == [
        "",
        "default/time: you have not signed in at default/time: fairlead login default/time",
    ]
    assert row({**FAILED, "signIn": "you have not signed in"})[1] == "failed"
    assert lines_about([wanted]) == [
        "waiting for a sign-in: default/time: you have not signed in at default/time: fairlead login default/time"
    ]


def test_the_reason_is_told_below_the_table_and_last_words_only_where_they_say_more() -> None:
    assert details([READY, FAILED]) == ["", "default/mail exited with code 1: no key [2J"]
    other = {**FAILED, "message": "it does not answer", "lastWords": "no key"}
    assert details([other]) == ["", "default/mail: it does not answer", "  last output: no key"]


def test_a_process_that_lists_no_tools_is_told_with_its_last_output() -> None:
    empty = {**READY, "tools": 0, "lastWords": "[CRITICAL] the document cannot be read"}
    assert details([empty]) == [
        "",
        "default/time offers no tools: its entry leaves them out, or its output says why: fairlead logs default/time",
        "  last output: [CRITICAL] the document cannot be read",
    ]
    without_process = {name: value for name, value in empty.items() if name not in ("restarts", "lastWords")}
    assert details([without_process]) == []


def test_principals_without_the_message_of_a_server_get_the_meaning_of_its_cause() -> None:
    told = {name: value for name, value in FAILED.items() if name not in ("message", "lastWords")}
    meant = "The process could not be started, or exited at once."
    ask = "Administrators of the gateway see {} own message; on a cluster, kubectl describe mcps shows it."
    whose = "the server's"
    assert details([told]) == ["", f"default/mail: {meant} {ask.format(whose)}"]
    twice = details([told, {**told, "server": "default/news"}])
    assert [line for line in twice if line] == [
        f"default/mail: {meant}",
        f"default/news: {meant}",
        ask.format("each server's"),
    ]
    assert details([{**told, "cause": "OfALaterRelease"}]) == []
    assert details([{**told, "state": "starting", "cause": "Deploying"}]) == [], "as usual"


def test_a_decision_about_a_tool_of_a_server_that_is_not_ready_says_so() -> None:
    decision: dict[str, Any] = {
        "allowed": True,
        "reason": "no policy selects its server",
        "tool": "mail__send",
        "server": "default/mail",
        "serverState": "offline",
        "serverCause": "ConnectionRefused",
        "bounded": False,
        "hidden": None,
        "tier": None,
        "maxTier": None,
        "limits": {},
        "pinned": False,
        "policies": [],
    }
    assert decision_lines(decision) == [
        "yes: no policy selects its server",
        "  tool       mail__send of default/mail",
        f"  server     offline: {EXPLANATIONS[Cause.CONNECTION_REFUSED].meaning}",
    ]
    assert len(decision_lines({**decision, "serverState": "ready", "serverCause": None})) == 2


def test_the_holder_of_a_prefix_is_told_for_ready_and_for_failed_servers() -> None:
    conflict = "PrefixTaken: prefix time belongs to strict/time, which had it first"
    assert row({**READY, "prefix": None, "conflict": conflict})[-1] == "Conflicted"
    assert row({**FAILED, "prefix": None, "conflict": conflict})[-1] == "StartFailed"
    for server in (READY, FAILED):
        assert details([{**server, "conflict": conflict}])[-1] == f"{server['server']}: {conflict}"


def test_a_server_that_starts_as_usual_needs_no_reason_and_one_that_is_silent_does() -> None:
    assert details([STARTS]) == ["", "default/slow:", "  last output: downloading"]
    assert details([SILENT]) == ["", "default/slow: it has printed nothing for 10 s"]


@pytest.mark.parametrize(
    ("name", "prefix", "its"),
    [
        ("slow__get", "slow", True),
        ("mcp.slow.get", "slow", True),
        ("mcp.slow.get", None, True),
        ("get", "", True),
        ("get", "slow", False),
        ("slower__get", "slow", False),
        ("slow__get", None, False),
    ],
)
def test_a_tool_may_be_of_a_server_by_prefix_by_id_or_without_prefix(name: str, prefix: str | None, its: bool) -> None:
    assert may_have_tool({**STARTS, "prefix": prefix}, name) is its


def test_a_server_that_is_missing_in_a_list_is_named_with_its_reason_and_several_are_counted() -> None:
    assert lines_about([READY, FAILED, STARTS]) == [
        "still starting: default/slow; see `fairlead servers`",
        "not available: default/mail exited with code 1: no key [2J",
    ]
    assert lines_about([FAILED, FAILED]) == ["not available: default/mail, default/mail; see `fairlead servers`"]
    assert server_names([STARTS] * 7).endswith("and 2 more")
    stopped = {"server": "default/off", "state": "stopped", "message": "spec.replicas is 0"}
    assert lines_about([stopped]) == ["stopped: default/off: spec.replicas is 0"]
    wanted = {"server": "default/linear", "state": "sign-in", "message": "sign in: fairlead login default/linear"}
    assert lines_about([wanted]) == ["waiting for a sign-in: default/linear: sign in: fairlead login default/linear"]
    assert lines_about([READY]) == []


def test_refresh_that_waited_in_vain_tells_what_is_known_of_the_server() -> None:
    now = datetime.now(UTC)
    request = {"server": "default/slow", "operatorSeenAt": now.isoformat()}
    waited = "default/slow did not respond within 30 s, its state is starting; --timeout waits longer"
    assert timeout_reason(request, {"state": "starting"}, 30) == waited
    assert timeout_reason(request, SILENT | {"state": "starting"}, 30) == f"{waited}. it has printed nothing for 10 s"
    absent = {**request, "operatorSeenAt": (now - timedelta(hours=1)).isoformat()}
    assert timeout_reason(absent, SILENT, 30).startswith("no operator has polled this gateway since ")
