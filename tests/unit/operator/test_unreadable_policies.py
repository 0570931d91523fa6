"""A policy that cannot be read allows nothing: it denies all tools that it selects, and its status says so."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import Invalid
from fairlead_kube.resources import TOOL_POLICIES
from fairlead_operator.kube.declared_resources import KubeDeclarations
from fairlead_operator.publish.compile import compile_rules
from fairlead_operator.publish.policies import PolicyStatuses
from operatorfakes import MemoryPlatform


def declare(spec: dict[str, Any], status: Any = None) -> KubeDeclarations:
    declarations = KubeDeclarations(cast("Kube", None), server_changed=lambda key: None, rules_changed=lambda: None)
    metadata = {"name": "p", "namespace": "team", "uid": "1", "resourceVersion": "1"}
    declarations.stores()[TOOL_POLICIES].update({"metadata": metadata, "spec": spec, "status": status})
    return declarations


@pytest.mark.parametrize(
    ("servers", "every"),
    [(None, True), ({"matchLabels": {"a": "b"}}, False), ({"matchLabels": "odd"}, True), ("odd", True)],
)
async def test_an_unreadable_policy_denies_what_it_selects_to_everybody(servers: Any, every: bool) -> None:
    declarations = declare({"servers": servers, "subjects": [{"kind": "Robot"}], "rules": [{"action": "Perhaps"}]})
    (policy,) = compile_rules([], await declarations.policies(), {}).policies
    assert (policy.every, policy.subjects) == (every, ())
    assert [(rule.action, rule.tools) for rule in policy.rules] == [("Deny", ("*",))]
    ((key, fault),) = declarations.policy_faults().items()
    assert (str(key), "rules.0.action" in fault) == ("team/p", True)


@pytest.mark.parametrize(("status", "servers"), [({"servers": 3}, 3), ({"servers": "many"}, None), (None, None)])
async def test_the_status_of_an_unreadable_policy_is_written_once(status: Any, servers: int | None) -> None:
    (policy,) = await declare({"rules": [{"action": "Perhaps"}]}, status).policies()
    assert policy.status.servers == servers


async def test_a_readable_policy_is_what_it_says() -> None:
    declarations = declare({"rules": [{"action": "Allow", "tools": ["get"]}]})
    (policy,) = await declarations.policies()
    assert (policy.spec.rules[0].action, dict(declarations.policy_faults())) == ("Allow", {})


class _StrictApi:
    """API server that refuses the status of the policy `p`, whose spec no longer matches the schema."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def apply(self, kind: object, namespace: str, body: Json, *, subresource: str) -> Json:
        if body["metadata"]["name"] == "p":
            raise Invalid("ToolPolicy p is invalid: spec.rules[0].action: Unsupported value")
        self.shown.append(body["metadata"]["name"])
        return {**body, "metadata": {**METADATA, **body["metadata"], "resourceVersion": "2"}, "spec": SOUND}


METADATA = {"namespace": "team", "uid": "1", "resourceVersion": "1"}
SOUND = {"rules": [{"action": "Allow", "tools": ["get"]}]}


async def test_a_status_that_the_api_server_refuses_holds_nothing_up() -> None:
    api = _StrictApi()
    declarations = KubeDeclarations(cast("Kube", api), server_changed=lambda key: None, rules_changed=lambda: None)
    for name, spec in (("p", {"rules": [{"action": "Perhaps"}]}), ("q", SOUND)):
        declarations.stores()[TOOL_POLICIES].update({"metadata": {**METADATA, "name": name}, "spec": spec})
    statuses = PolicyStatuses(declarations, MemoryPlatform())
    statuses.take_rules(compile_rules([], await declarations.policies(), {}))
    await statuses.show()
    assert api.shown == ["q"]
