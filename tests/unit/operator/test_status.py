"""Statuses of servers: conditions, Ready derived from them, and no write without a change."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, ChildEndpoint, HttpEndpoint, ToolEntry
from fairlead_api.reasonspage import page
from fairlead_api.v1alpha1.causes import REASON_OF, Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_operator.condition_assembly import AdviceContext, conditions, ready_verdict
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.server.announcements import condition_announcements
from fairlead_operator.server.status import Facts, Verdicts, build_status
from operatorfakes import NOW, URL, mcp_server

GOOD = ConditionVerdict(True, Cause.ACCEPTED, "good")
BAD = ConditionVerdict(False, Cause.SECRET_NOT_FOUND, "no Secret")
OPEN = ConditionVerdict(None, Cause.DEPLOYING, "not yet")
DOWN = ConditionVerdict(False, Cause.CONNECTION_REFUSED, "refused")
VERIFIED = ConditionVerdict(True, Cause.VERIFIED, "it answered")
WELL = Verdicts(GOOD, GOOD, GOOD, VERIFIED)
HTTP = HttpEndpoint(url=URL)


def catalog(*names: str, online: bool = True, server_info: bytes = b"{}", capabilities: bytes = b"{}") -> Catalog:
    tools = tuple(ToolEntry(name=name, definition=Raw(b"{}"), hash="", search_hash="") for name in names)
    return Catalog(
        namespace="team",
        name="demo",
        uid="u",
        generation=1,
        endpoint=HTTP,
        protocol_version="2026-07-28",
        server_info=Raw(server_info),
        capabilities=Raw(capabilities),
        tools=tools,
        online=online,
        hash="h",
        updated_at=NOW.isoformat(),
    )


@pytest.mark.parametrize(
    ("verdicts", "result"),
    [
        ((GOOD, GOOD, GOOD, VERIFIED), VERIFIED),
        ((GOOD, GOOD, OPEN, OPEN), OPEN),
        ((GOOD, GOOD, OPEN, DOWN), DOWN),
        ((GOOD, BAD, GOOD, DOWN), BAD),
        ((GOOD, OPEN, BAD, DOWN), BAD),
    ],
)
def test_ready_is_false_before_unknown_before_true_by_the_first_to_blame(
    verdicts: tuple[ConditionVerdict, ...], result: ConditionVerdict
) -> None:
    kinds = (
        ConditionType.ACCEPTED,
        ConditionType.RESOLVED_REFS,
        ConditionType.PROGRAMMED,
        ConditionType.VERIFIED,
    )
    given = dict(zip(kinds, verdicts, strict=True))
    assert ready_verdict({**given, ConditionType.CALIBRATED: BAD}) == result


def test_the_page_of_reasons_says_which_condition_ready_follows() -> None:
    unknown_before_false = {
        ConditionType.ACCEPTED: OPEN,
        ConditionType.RESOLVED_REFS: GOOD,
        ConditionType.VERIFIED: DOWN,
    }
    assert ready_verdict(unknown_before_false) == DOWN
    (sentence,) = re.findall(r"`Ready` has status and reason [^.]*\.", page())
    assert sentence.endswith(
        "\nthat is `False`, else of the first that is `Unknown`, as far as the resource has these conditions."
    )


def with_status(server: McpServer, status: McpServerStatus) -> McpServer:
    return server.model_copy(update={"status": status})


def test_an_unchanged_server_has_an_unchanged_status_whatever_the_time() -> None:
    server = mcp_server()
    facts = Facts(HTTP, catalog("a"))
    first = build_status(server, WELL, facts, NOW)
    again = build_status(with_status(server, first), WELL, facts, NOW + timedelta(days=1))
    assert again.to_wire() == first.to_wire()


def test_the_transition_time_moves_when_the_status_does_and_not_with_the_reason() -> None:
    server = mcp_server()
    first = build_status(server, Verdicts(GOOD, GOOD, GOOD, DOWN), Facts(HTTP), NOW)
    later = NOW + timedelta(minutes=5)
    other = ConditionVerdict(False, Cause.TIMEOUT, "too slow")
    second = build_status(with_status(server, first), Verdicts(GOOD, GOOD, GOOD, other), Facts(HTTP), later)
    third = build_status(with_status(server, second), WELL, Facts(HTTP, catalog("a")), later)
    times = [condition.last_transition_time for s in (first, second, third) if (condition := s.condition("Verified"))]
    assert times == [NOW, NOW, later]


def test_status_fields_without_news_stay_as_shown() -> None:
    server = mcp_server()
    first = build_status(server, WELL, Facts(HTTP, catalog("a")), NOW)
    again = build_status(with_status(server, first), Verdicts(GOOD, GOOD, GOOD, None), Facts(HTTP, catalog("a")), NOW)
    assert again.to_wire() == first.to_wire()
    fresh = build_status(server, Verdicts(GOOD, GOOD, GOOD, None), Facts(HTTP), NOW)
    verified = fresh.condition("Verified")
    assert verified is not None
    assert (verified.status, verified.reason) == ("Unknown", "Pending")


def test_settings_without_effect_stand_beside_a_ready_server_until_they_are_mended() -> None:
    server = mcp_server()
    taken = ConditionVerdict(True, Cause.PREFIX_TAKEN, "prefix demo belongs to team/older")
    warnings = build_status(server, replace(WELL, conflicted=taken), Facts(HTTP), NOW)
    conflicted = warnings.condition("Conflicted")
    good = warnings.condition("Ready")
    assert conflicted is not None
    assert good is not None
    assert (conflicted.status, conflicted.reason, good.status) == ("True", "Conflicted", "True")
    assert conflicted.message == ("PrefixTaken: prefix demo belongs to team/older. Set spec.prefix to a free prefix.")
    assert build_status(with_status(server, warnings), WELL, Facts(HTTP), NOW).condition("Conflicted") is None


@pytest.mark.parametrize(
    ("cause", "names", "advice"),
    [
        (
            Cause.SECRET_NOT_LABELLED,
            {"SECRET": "key", "NAMESPACE": "team"},
            "kubectl label secret key -n team fairlead.dev/credential=true",
        ),
        (
            Cause.PREFIX_RESERVED,
            {"OWNER": "strict", "PREFIX": "faces"},
            (
                "annotate any McpServer in strict with fairlead.dev/release-prefix=faces. Where the namespace was "
                "deleted, create it and an McpServer in it for that, or wait for the end of the reservation."
            ),
        ),
    ],
)
def test_advice_names_the_objects_that_the_verdict_is_about(cause: Cause, names: dict[str, str], advice: str) -> None:
    verdict = ConditionVerdict(False, cause, "why", names)
    status = build_status(mcp_server(), replace(WELL, resolved=verdict), Facts(HTTP), NOW)
    for kind in ("ResolvedRefs", "Ready"):
        condition = status.condition(kind)
        assert condition is not None
        assert condition.message.endswith(advice)


@pytest.mark.parametrize(
    ("ended", "advice"),
    [
        ("exited with code 1: no key", "shows what it printed."),
        ("exited with code 1; it printed nothing", "it printed nothing. Check command, args, cwd and env."),
        ("exited with code 1: Chrome cannot be started: no display", "shows what it printed."),
        (
            "cannot be started: its working directory (cwd) /nope does not exist",
            "does not exist. Check command, args, cwd and env.",
        ),
    ],
)
def test_advice_names_no_log_of_a_server_that_printed_nothing(ended: str, advice: str) -> None:
    verdict = ConditionVerdict(False, Cause.START_FAILED, f"team/search {ended}")
    context = AdviceContext(form="client-configuration", server="team/search")
    made = conditions({ConditionType.READY: verdict, ConditionType.VERIFIED: verdict}, [], 1, NOW, context)
    assert made[1].message.endswith(advice)


def test_a_message_begins_with_the_cause_where_it_says_more_than_the_reason_and_only_once() -> None:
    server = mcp_server()
    first = build_status(server, Verdicts(GOOD, GOOD, GOOD, DOWN), Facts(HTTP), NOW)
    again = build_status(with_status(server, first), Verdicts(GOOD, GOOD, GOOD, None), Facts(HTTP), NOW)
    verified = again.condition("Verified")
    assert verified is not None
    assert (verified.reason, verified.message.count("ConnectionRefused: refused.")) == ("Unreachable", 1)
    assert again.to_wire() == first.to_wire()


def test_every_condition_carries_the_generation_that_it_was_observed_for() -> None:
    status = build_status(mcp_server(generation=7), WELL, Facts(HTTP), NOW)
    assert {c.observed_generation for c in status.conditions} == {7}
    assert status.observed_generation == 7
    assert [c.type for c in status.conditions] == [
        "Accepted",
        "ResolvedRefs",
        "Programmed",
        "Verified",
        "Calibrated",
        "Ready",
    ]


def test_tools_are_absent_then_counted_then_offline_then_none() -> None:
    server = mcp_server()
    counts = []
    for facts in (
        Facts(HTTP),
        Facts(HTTP, catalog("a", "b")),
        Facts(HTTP, catalog("a", "b", online=False)),
        Facts(HTTP),
    ):
        status = build_status(server, WELL, facts, NOW)
        counts.append((status.tools, status.tools_offline))
        server = with_status(server, status)
    assert counts == [(None, None), (2, 0), (2, 2), (0, 0)]


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b'{"name":"x","version":"1","icons":[{"src":"y"}]}', "x"),
        (b'{"name":7}', None),
        (b"{}", None),
        (b"[]", None),
        (b'{"name":"' + b"n" * 5000 + b'"}', "n" * 1024),
    ],
)
def test_any_server_info_fits_the_schema_of_the_status(raw: bytes, name: str | None) -> None:
    info = build_status(mcp_server(), WELL, Facts(HTTP, catalog(server_info=raw)), NOW).server_info
    assert (info.name if info else None) == name


def test_a_long_message_is_cut_and_a_child_is_shown_by_its_command() -> None:
    long = ConditionVerdict(False, Cause.NOT_MCP, "x" * 10_000)
    status = build_status(
        mcp_server(), Verdicts(GOOD, GOOD, GOOD, long), Facts(ChildEndpoint(command="uv", args=("run", "x"))), NOW
    )
    ready = status.condition("Ready")
    assert ready is not None
    assert len(ready.message) == 2000
    assert status.endpoint == "uv run x"


@pytest.mark.parametrize(
    ("capabilities", "shown"),
    [
        (b"{}", None),
        (b'{"extensions":{"z/b":{},"a/b":{"x":1}}}', ["a/b", "z/b"]),
        (b'{"extensions":["a/b"]}', None),
        (b'{"extensions":{"a/b":true,"%b":{}}}' % (b"x" * 129), None),
        (msgspec.json.encode({"extensions": {f"a/{n:03}": {} for n in range(99)}}), [f"a/{n:03}" for n in range(32)]),
    ],
)
def test_extensions_of_the_server_are_shown_within_bounds(capabilities: bytes, shown: list[str] | None) -> None:
    facts = Facts(HTTP, catalog(capabilities=capabilities))
    assert build_status(mcp_server(), WELL, facts, NOW).extensions == shown


@pytest.mark.parametrize(
    ("cause", "kind"),
    [(Cause.STOPPED, "Normal"), (Cause.CRASH_LOOPING, "Warning")],
    ids=["replicas-0", "failure"],
)
def test_an_event_warns_of_failures_and_not_of_a_server_that_its_owner_stopped(cause: Cause, kind: str) -> None:
    condition = {"type": "Ready", "status": "False", "reason": REASON_OF[cause], "message": "why"}
    now = McpServerStatus.model_validate({"conditions": [{**condition, "lastTransitionTime": "2026-11-20T12:00:00Z"}]})
    (event,) = condition_announcements(McpServerStatus(), now)
    assert (event.kind, event.reason) == (kind, REASON_OF[cause])


@pytest.mark.parametrize(("tools", "words"), [(0, "0 tools"), (1, "1 tool"), (2, "2 tools")])
def test_an_event_counts_the_tools_of_a_ready_server(tools: int, words: str) -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "AsExpected",
        "lastTransitionTime": "2026-11-20T12:00:00Z",
    }
    now = McpServerStatus.model_validate({"conditions": [condition], "tools": tools})
    (event,) = condition_announcements(McpServerStatus(), now)
    assert (event.kind, event.note) == ("Normal", f"ready with {words}")
