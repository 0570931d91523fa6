"""Health of Fairlead's resources by the rules of kstatus, which Flux uses, and of Argo CD: healthy if Ready."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import HttpEndpoint
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_operator.condition_assembly import conditions
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.server.status import Facts, Verdicts, build_status
from operatorfakes import mcp_server
from page_reader import blocks

NOW = datetime(2026, 11, 23, tzinfo=UTC)
GOOD = ConditionVerdict(True, Cause.ACCEPTED, "good")
ANSWERED = ConditionVerdict(True, Cause.VERIFIED, "it answered")
TAKEN = ConditionVerdict(True, Cause.PREFIX_TAKEN, "the prefix is taken")
NO_TIER = ConditionVerdict(True, Cause.UNKNOWN_TIER, "there is no such tier")
DOWN = ConditionVerdict(False, Cause.CONNECTION_REFUSED, "nothing listens")
DEPLOYING = ConditionVerdict(None, Cause.DEPLOYING, "no pod yet")
STOPPED = ConditionVerdict(False, Cause.STOPPED, "0 replicas")
PAGE = Path(__file__).parents[2] / "docs" / "install" / "health.md"


def server(verdicts: Verdicts | None, generation: int = 1) -> dict[str, Any]:
    """An McpServer of generation 1 whose status is about the given generation."""
    declared = mcp_server(generation=generation)
    body = {"metadata": {"name": "demo", "generation": 1}}
    if verdicts is None:
        return body
    status = build_status(declared, verdicts, Facts(HttpEndpoint(url="http://demo/mcp")), NOW)
    return {**body, "status": status.to_wire()}


def policy(**beside: ConditionVerdict) -> dict[str, Any]:
    """A ToolPolicy or LatencyTier in force."""
    given = {ConditionType.ACCEPTED: GOOD, **{ConditionType(kind): verdict for kind, verdict in beside.items()}}
    shown = [condition.to_wire() for condition in conditions(given, [], 1, NOW)]
    return {
        "metadata": {"name": "p", "generation": 1},
        "status": {"observedGeneration": 1, "conditions": shown},
    }


def kstatus(resource: dict[str, Any]) -> str:
    """Status of a custom resource by the rules of sigs.k8s.io/cli-utils/pkg/kstatus: generic properties, then Ready."""
    metadata = resource["metadata"]
    status = resource.get("status", {})
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return "InProgress"
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


WELL = Verdicts(GOOD, GOOD, GOOD, ANSWERED)
STORIES: dict[str, tuple[dict[str, Any], str, str]] = {
    "serves": (server(WELL), "Current", "Healthy"),
    "serves beside an older server of its prefix": (
        server(Verdicts(GOOD, GOOD, GOOD, ANSWERED, conflicted=TAKEN)),
        "Current",
        "Healthy",
    ),
    "serves with a floor that is not a tier": (
        server(Verdicts(GOOD, GOOD, GOOD, ANSWERED, partially_invalid=NO_TIER)),
        "Current",
        "Healthy",
    ),
    "was changed since": (server(WELL, generation=0), "InProgress", "Progressing"),
    "is on its way": (server(Verdicts(GOOD, GOOD, DEPLOYING)), "InProgress", "Progressing"),
    "is down": (server(Verdicts(GOOD, GOOD, GOOD, DOWN)), "InProgress", "Degraded"),
    "is stopped": (server(Verdicts(GOOD, GOOD, STOPPED)), "InProgress", "Suspended"),
    "policy in force": (policy(), "Current", "Healthy"),
    "policy that others contradict": (policy(Conflicted=TAKEN, PartiallyInvalid=NO_TIER), "Current", "Healthy"),
    "policy that cannot be read": (
        policy(Accepted=ConditionVerdict(False, Cause.INVALID, "no")),
        "InProgress",
        "Degraded",
    ),
}


@pytest.mark.parametrize("what", STORIES)
def test_flux_waits_for_what_does_not_serve_and_for_nothing_else(what: str) -> None:
    resource, wanted, _ = STORIES[what]
    assert kstatus(resource) == wanted


@pytest.fixture(scope="module")
def lua() -> Any:
    """A Lua interpreter like Argo CD's."""
    lupa = pytest.importorskip("lupa", reason="an environment from before lupa was in the extra `dev`")
    runtime = lupa.LuaRuntime()
    script = blocks(PAGE.read_text("utf-8"), "lua")
    assert len(script) == 1
    function = runtime.execute(f"return function(obj)\n{script[0]}\nend")
    return lambda resource: dict(function(runtime.table_from(resource, recursive=True)))


@pytest.mark.parametrize("what", STORIES)
def test_the_script_for_argo_cd_says_the_same_and_why(lua: Any, what: str) -> None:
    resource, _, wanted = STORIES[what]
    health = lua(resource)
    assert health["status"] == wanted
    assert health["message"]


def test_the_script_for_argo_cd_waits_for_a_resource_that_nobody_has_looked_at(lua: Any) -> None:
    assert lua(server(None))["status"] == "Progressing"
    assert lua({**server(None), "status": {"observedGeneration": 0}})["status"] == "Progressing"
