"""Random values that the schema accepts: the rendered manifests work, or the chart refuses the values with a
message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from controlplane import ControlPlane
from dryruns import dry_run
from examples import examples
from helmworld import API_VERSIONS, CHART, NAMESPACE, Helm, Refused
from renderedsettings import read_settings
from schemastrategies import values_of

# Hypothesis draws constants of the loaded modules, which differ between processes, so a merge could fail by chance
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]

SCHEMA: Final = json.loads((CHART / "values.schema.json").read_text())
PEERS: Final = [[], [{"podSelector": {"matchLabels": {"app": "a"}}}]]
CONTAINERS: Final = [[], [{"name": "beside", "image": "beside:1"}]]
SPREADS: Final = [[], [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]]
RESOURCES: Final = [{"requests": {"cpu": 0.5}, "limits": {"memory": "1Gi"}}, {"limits": {"example.com/device": 1}}]
ALIASES: Final = [[], [{"ip": "fd00::1", "hostnames": ["models.example.com"]}]]
RESOLVERS: Final = [{}, {"nameservers": ["10.0.0.10"], "options": [{"name": "ndots", "value": "2"}]}]
AFFINITY: Final[list[Any]] = [{}, {"podAntiAffinity": {}}]
PASSED_ON: Final[dict[str, list[Any]]] = {
    "global": [{}, {"a": 1}],
    "extraObjects": [
        [],
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": NAMESPACE}}],
    ],
    "podSecurityContext": [{"runAsNonRoot": True}],
    "securityContext": [{"readOnlyRootFilesystem": True}],
    "identity.issuers": [[], [{"issuer": "https://login.example.com", "audiences": ["tools"]}]],
    "identity.authorizationServer": [{}],
    "operator.affinity": AFFINITY,
    "gateway.affinity": AFFINITY,
    "operator.extraContainers": CONTAINERS,
    "gateway.extraContainers": CONTAINERS,
    "operator.extraInitContainers": CONTAINERS,
    "gateway.extraInitContainers": CONTAINERS,
    "operator.extraVolumes": [[], [{"name": "more", "emptyDir": {}}]],
    "gateway.extraVolumes": [[], [{"name": "more", "emptyDir": {}}]],
    "operator.extraVolumeMounts": [[], [{"name": "tmp", "mountPath": "/more"}]],
    "gateway.extraVolumeMounts": [[], [{"name": "tmp", "mountPath": "/more"}]],
    "operator.resources": RESOURCES,
    "gateway.resources": RESOURCES,
    "operator.hostAliases": ALIASES,
    "gateway.hostAliases": ALIASES,
    "operator.dnsConfig": RESOLVERS,
    "gateway.dnsConfig": RESOLVERS,
    "operator.topologySpreadConstraints": SPREADS,
    "gateway.topologySpreadConstraints": SPREADS,
    "operator.tolerations": [[], [{"key": "a", "operator": "Exists"}]],
    "gateway.tolerations": [[], [{"key": "a", "operator": "Exists"}]],
    "gateway.autoscaling.extraMetrics": [[]],
    "gateway.autoscaling.behavior": [{}, {"scaleDown": {"stabilizationWindowSeconds": 60}}],
    "gateway.httpRoute.parentRefs": [[], [{"name": "public"}]],
    "gateway.httpRoute.filters": [[]],
    "gateway.httpRoute.timeouts": [None, {"request": "0s"}, {"request": "10s", "backendRequest": "5s"}],
    "networkPolicy.clients": PEERS,
    "networkPolicy.monitoring": PEERS,
    "networkPolicy.egress.apiServer": PEERS,
    "networkPolicy.egress.rules": [[], [{"ports": [{"port": 443}]}]],
    "monitoring.podMonitor.relabelings": [[]],
    "monitoring.serviceMonitor.relabelings": [[]],
    "gateway.routes.routes": [{}],
    "gateway.routes.models": [{}],
    "gateway.routes.liveModels": [{}],
    "gateway.routes.providers": [{}, {"models": {"baseUrl": "https://models.example.com"}}],
}
"""Values whose members depend on each other, or that other programs read: an API server and the gateway check them."""


def leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, st.SearchStrategy[Any]]]:
    """Path and schema of each value."""
    for name, member in schema["properties"].items():
        where = f"{path}.{name}".lstrip(".")
        if where in PASSED_ON:
            yield where, st.sampled_from(PASSED_ON[where])
        elif member.get("properties"):
            yield from leaves(member, where)
        else:
            yield where, values_of(member)


ABSENT: Final = re.compile(
    "no PriorityClass with name|RuntimeClass .* not found|error looking up service account"
    "|not configured (for dual-stack|on this cluster)"
)
"""Refusals about features that an installation may have, but this API server lacks."""
LEAVES: Final = dict(leaves(SCHEMA))


def nest_values(given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for path, value in given.items():
        *folders, last = path.split(".")
        inner = values
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[last] = value
    return values


def drawn_values() -> st.SearchStrategy[dict[str, Any]]:
    """A few values at a time, because many values would contradict each other."""
    few = st.lists(st.sampled_from(sorted(LEAVES)), min_size=1, max_size=8, unique=True)
    return few.flatmap(lambda paths: st.fixed_dictionaries({path: LEAVES[path] for path in paths})).map(nest_values)


def test_values_that_the_schema_takes_work_or_are_refused_with_a_sentence(
    plane_with_kinds: ControlPlane, helm: Helm, tmp_path: Path
) -> None:
    file = tmp_path / "values.yaml"
    rendered = 0

    # an example takes a second, so shrinking would take minutes
    @settings(
        max_examples=examples(25), phases=(Phase.generate,), deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(drawn_values())
    def works(values: dict[str, Any]) -> None:
        nonlocal rendered
        file.write_text(json.dumps(values))
        try:
            made = helm.template("--values", file, *API_VERSIONS)
        except Refused as refused:
            if "execution error at (fairlead/templates/" not in str(refused):
                raise
            return
        read_settings(made)
        for item in made:
            if item["kind"] == "CustomResourceDefinition":
                continue  # these only differ in labels
            namespace = item["metadata"].get("namespace", NAMESPACE)
            plane_with_kinds.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            status, answer = dry_run(plane_with_kinds, namespace, item)
            absent = status in (403, 422) and ABSENT.search(str(answer))
            assert absent or status in (200, 201), f"{item['kind']}: {answer}"
        rendered += 1

    works()
    assert rendered > 2
