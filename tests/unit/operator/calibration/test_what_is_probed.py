"""The tools that a probe may call."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, DeclaredLatency, HttpEndpoint, ToolEntry
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE, USER_CONSENT, OAuthSettings
from fairlead_api.v1alpha1.mcpserver import ProbePolicy
from fairlead_operator.calibration.plan import PlannedProbe, ProbePlan, plan
from operatorfakes import mcp_server

READ_ONLY = {"readOnlyHint": True}
NEEDS_X = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def entry(annotations: Any = None, schema: Any = None, **more: Any) -> ToolEntry:
    definition = {"name": "t", "inputSchema": schema or {"type": "object"}, "annotations": annotations}
    definition |= {"execution": more.pop("execution")} if "execution" in more else {}
    raw = Raw(msgspec.json.encode({name: value for name, value in definition.items() if value is not None}))
    return ToolEntry(name="t", definition=raw, hash="h", search_hash="s", **more)


def plan_probe(
    tool: ToolEntry, *, trusted: bool = True, default: ProbePolicy = "Declared", grant: str = "", **spec: Any
) -> ProbePlan:
    catalog = Catalog(
        namespace="team",
        name="demo",
        uid="u",
        generation=1,
        endpoint=HttpEndpoint(url="http://x/mcp"),
        protocol_version="2026-07-28",
        tools=(tool,),
        trust_annotations=trusted,
        oauth=OAuthSettings(grant=grant) if grant else None,
    )
    return plan(mcp_server(**{"calibration": {"probe": "ReadOnly"}, **spec}), catalog, default)


def test_a_read_only_tool_of_a_trusted_server_is_probed_with_arguments_from_its_schema() -> None:
    assert plan_probe(entry(READ_ONLY, NEEDS_X)).probes == (PlannedProbe("t", b'{"x":1}', False, 60.0),)


@pytest.mark.parametrize(
    ("tool", "trusted"),
    [
        (entry(READ_ONLY), False),
        (entry(), True),
        (entry({"readOnlyHint": False}), True),
        (entry({"readOnlyHint": "true"}), True),
        (entry({"readOnlyHint": True, "destructiveHint": True}), True),
        (entry({"idempotentHint": True}), True),
        (entry("read-only"), True),
        (entry(READ_ONLY, execution={"taskSupport": "required"}), True),
        (entry(READ_ONLY, enabled=False), True),
        (entry(probe_arguments={}, enabled=False), True),
    ],
    ids=[
        "untrusted",
        "silent",
        "not read-only",
        "a string",
        "destructive too",
        "idempotent",
        "no object",
        "a task",
        "disabled",
        "disabled with arguments",
    ],
)
def test_tools_that_might_have_effects_are_never_probed(tool: ToolEntry, trusted: bool) -> None:
    assert plan_probe(tool, trusted=trusted).probes == ()


def test_probe_arguments_allow_a_probe_of_any_tool_and_are_used_as_they_are() -> None:
    plan_of_tool = plan_probe(entry(schema=NEEDS_X, probe_arguments={"x": 40}), trusted=False)
    assert plan_of_tool.probes == (PlannedProbe("t", b'{"x":40}', True, 60.0),)


def test_a_tool_for_which_no_arguments_can_be_made_is_named() -> None:
    odd = {"type": "object", "required": ["x"], "properties": {"x": {"type": "string", "pattern": "^Q{9}$"}}}
    assert plan_probe(entry(READ_ONLY, odd)) == ProbePlan((), ("t",), "ReadOnly")


@pytest.mark.parametrize("calibration", [{}, {"probe": "Declared"}], ids=str)
def test_tools_are_not_probed_unasked(calibration: dict[str, Any]) -> None:
    assert plan_probe(entry(READ_ONLY), calibration=calibration) == ProbePlan(policy="Declared")
    assert plan_probe(entry(READ_ONLY, probe_arguments={}), calibration=calibration).probes == (
        PlannedProbe("t", b"{}", True, 60.0),
    )


def test_a_server_that_is_not_to_be_probed_is_left_alone() -> None:
    calibration = {"probe": "Never"}
    assert plan_probe(entry(READ_ONLY), calibration=calibration) == ProbePlan(policy="Never")
    assert plan_probe(entry(READ_ONLY, probe_arguments={}), calibration=calibration) == ProbePlan(policy="Never")


def test_the_installation_says_what_is_probed_of_servers_that_do_not_say_it_themselves() -> None:
    calibrations: dict[str, dict[str, Any]] = {
        "silent": {},
        "declared": {"probe": "Declared"},
        "never": {"probe": "Never"},
    }
    counts = {
        word: len(plan_probe(entry(READ_ONLY), calibration=calibration, default="ReadOnly").probes)
        for word, calibration in calibrations.items()
    }
    assert counts == {"silent": 1, "declared": 0, "never": 0}


def test_a_probe_takes_no_longer_than_the_tool_and_the_server_allow() -> None:
    slow = entry(READ_ONLY, latency=DeclaredLatency(max_duration_ms=2500))
    assert plan_probe(slow).probes[0].timeout == 2.5
    assert plan_probe(slow, limits={"timeout": "1s"}).probes[0].timeout == 1.0


@pytest.mark.parametrize("grant", [TOKEN_EXCHANGE, USER_CONSENT])
def test_probes_need_a_credential_of_the_operator_where_calls_go_as_a_person(grant: str) -> None:
    client = {"issuer": "https://login.example.com", "clientID": "fairlead", "secretRef": {"name": "client"}}
    lists: dict[str, Any] = {"auth": {grant: client if grant == TOKEN_EXCHANGE else {}}}
    own: dict[str, Any] = {"discovery": {"auth": {"clientCredentials": client}}}
    first: dict[str, Any] = {"discovery": {"auth": {"firstGrant": True}}} if grant == USER_CONSENT else {}

    for without in (lists, {**lists, **first}):
        probes = plan_probe(entry(READ_ONLY, NEEDS_X), grant=grant, **without)
        assert probes == ProbePlan(policy="ReadOnly", lacks_user_token=True)
    assert len(plan_probe(entry(READ_ONLY, NEEDS_X), grant=grant, **lists, **own).probes) == 1
    assert len(plan_probe(entry(READ_ONLY, NEEDS_X), grant=CLIENT_CREDENTIALS).probes) == 1
