"""Settings of operator and gateway as a rendered chart gives them, read by the programs' own readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead_app.settings import Settings as GatewaySettings
from fairlead_operator.settings import Settings as OperatorSettings
from helmworld import Object, of_kind

ELSEWHERE: Final = {"FAIRLEAD_REDIS": "redis://secret", "FAIRLEAD_POD_IPS": "10.244.0.7,fd00:10:244::7"}
"""Values that a Secret or the pod itself gives, of which the form matters."""


def read_settings(rendered: Sequence[Object]) -> tuple[OperatorSettings, GatewaySettings]:
    """Settings of both. Raises BadSetting, AssertionError for a variable that is unknown or there twice."""
    variables = {component: _variables(rendered, component) for component in ("operator", "gateway")}
    assert variables["operator"].keys() <= OperatorSettings.variables()
    assert variables["gateway"].keys() <= GatewaySettings.variables()
    return OperatorSettings.from_env(variables["operator"]), GatewaySettings.from_env(variables["gateway"])


def _variables(rendered: Sequence[Object], component: str) -> dict[str, str]:
    """Fairlead's own; those from elsewhere have a text."""
    (workload,) = [d for d in of_kind(rendered, "Deployment") if d["metadata"]["name"].endswith(f"-{component}")]
    listed = workload["spec"]["template"]["spec"]["containers"][0]["env"]
    names = [each["name"] for each in listed]
    assert len(names) == len(set(names))
    secrets = dict.fromkeys(names, "secret") | ELSEWHERE
    return {
        each["name"]: each.get("value", secrets[each["name"]])
        for each in listed
        if each["name"].startswith("FAIRLEAD_")
    }
