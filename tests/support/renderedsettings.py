"""Settings of operator and gateway from a rendered chart, read with the programs' own readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead_app.settings import Settings as GatewaySettings
from fairlead_operator.settings import Settings as OperatorSettings
from helmworld import Object, of_kind

ELSEWHERE: Final = {"FAIRLEAD_REDIS": "redis://secret", "FAIRLEAD_POD_IPS": "10.244.0.7,fd00:10:244::7"}
"""Stand-ins for values from Secrets or from the pod, whose form matters."""


def read_settings(rendered: Sequence[Object]) -> tuple[OperatorSettings, GatewaySettings]:
    """Settings of both programs. Raises BadSetting, or AssertionError for a variable that is unknown or occurs
    twice.
    """
    variables = {component: _variables(rendered, component) for component in ("operator", "gateway")}
    assert variables["operator"].keys() <= OperatorSettings.variables()
    assert variables["gateway"].keys() <= GatewaySettings.variables()
    return OperatorSettings.from_env(variables["operator"]), GatewaySettings.from_env(variables["gateway"])


def _variables(rendered: Sequence[Object], component: str) -> dict[str, str]:
    """Fairlead's own variables. Those with values from elsewhere have a stand-in."""
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
