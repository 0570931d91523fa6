"""A policy that cannot be read opens nothing: it denies what it selects, and says so."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead_kube.client import Kube
from fairlead_operator.kube.declared import KubeDeclarations
from fairlead_operator.publish.compile import compile_rules


def declared(spec: dict[str, Any]) -> KubeDeclarations:
    found = KubeDeclarations(cast("Kube", None), server_changed=lambda key: None, rules_changed=lambda: None)
    metadata = {"name": "p", "namespace": "team", "uid": "1", "resourceVersion": "1"}
    found.observe("toolpolicies", "ADDED", {"metadata": metadata, "spec": spec})
    return found


@pytest.mark.parametrize(
    ("servers", "every"),
    [(None, True), ({"matchLabels": {"a": "b"}}, False), ({"matchLabels": "odd"}, True), ("odd", True)],
)
async def test_it_denies_what_it_selects_to_everybody(servers: Any, every: bool) -> None:
    found = declared({"servers": servers, "subjects": [{"kind": "Robot"}], "rules": [{"action": "Perhaps"}]})
    (policy,) = compile_rules([], await found.policies(), {}).policies
    assert (policy.every, policy.subjects) == (every, ())
    assert [(rule.action, rule.tools) for rule in policy.rules] == [("Deny", ("*",))]
    ((key, fault),) = found.policy_faults().items()
    assert (str(key), "rules.0.action" in fault) == ("team/p", True)


async def test_one_that_can_be_read_is_what_it_says() -> None:
    found = declared({"rules": [{"action": "Allow", "tools": ["get"]}]})
    (policy,) = await found.policies()
    assert (policy.spec.rules[0].action, dict(found.policy_faults())) == ("Allow", {})
