"""HTTPRoute and BackendTLSPolicy of the chart are valid by the published definitions of the Gateway API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controlplane import PlaneFactory
from helmworld import NAMESPACE, Helm, Object, Refused, manifests, of_kind, rendered_object

pytestmark = pytest.mark.timeout(180)

DEFINITIONS = sorted((Path(__file__).parent / "crds").glob("gateway-api-*.yaml"))
KINDS = ("HTTPRoute", "BackendTLSPolicy")
KNOWN = [word for kind in KINDS for word in ("--api-versions", f"gateway.networking.k8s.io/v1/{kind}")]
ROUTE = ("--set", "gateway.httpRoute.enabled=true", "--set", "gateway.httpRoute.parentRefs[0].name=public")
TLS = ("--set", "tls.secret=cert", "--set", "gateway.httpRoute.backendTLS.hostname=fairlead.example.com")
AUTHORITY = ("--set", "gateway.httpRoute.backendTLS.caConfigMap=authority")


def policy(made: list[Object]) -> Object:
    return rendered_object(made, "BackendTLSPolicy", "fairlead-gateway")


@pytest.mark.parametrize("definitions", DEFINITIONS, ids=lambda path: path.stem)
def test_a_gateway_api_takes_the_route_without_a_timeout_and_the_policy(
    helm: Helm, private_plane: PlaneFactory, definitions: Path
) -> None:
    plane = private_plane(crds=False)
    plane.kubectl("apply", "--server-side", "-f", str(definitions))
    plane.await_definitions()
    plane.create_namespace(NAMESPACE)
    for words in (TLS, (*TLS, *AUTHORITY)):
        made = [item for kind in KINDS for item in of_kind(helm.template(*ROUTE, *words, *KNOWN), kind)]
        assert len(made) == 2
        plane.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=manifests(made))
    stored = json.loads(plane.kubectl("get", "httproute", "-n", NAMESPACE, "-o", "json").stdout)["items"]
    assert [item["spec"]["rules"][0]["timeouts"] for item in stored] == [{"request": "0s"}]
    bad = ("--set", "gateway.httpRoute.parentRefs[0].port=70000")
    unknown = manifests(of_kind(helm.template(*ROUTE, *bad, *KNOWN), "HTTPRoute"))
    assert plane.kubectl("apply", "--server-side", "-f", "-", stdin=unknown, check=False).returncode, "they do judge"


def test_the_policy_has_the_gateway_verify_the_certificate_of_the_pods(helm: Helm) -> None:
    made = helm.template(*ROUTE, *TLS, *KNOWN)
    (target,) = policy(made)["spec"]["targetRefs"]
    service = rendered_object(made, "Service", target["name"])
    assert target["sectionName"] in {port["name"] for port in service["spec"]["ports"]}
    assert policy(made)["spec"]["validation"] == {
        "hostname": "fairlead.example.com",
        "wellKnownCACertificates": "System",
    }
    named = policy(helm.template(*ROUTE, *TLS, *AUTHORITY, *KNOWN))["spec"]["validation"]
    assert named["caCertificateRefs"] == [{"group": "", "kind": "ConfigMap", "name": "authority"}]
    assert not of_kind(helm.template(*ROUTE, "--set", "tls.secret=cert", *KNOWN), "BackendTLSPolicy")


def test_a_policy_needs_a_gateway_api_that_has_its_kind(helm: Helm) -> None:
    with pytest.raises(Refused, match=r"does not know BackendTLSPolicy: install Gateway API 1\.4 or newer"):
        helm.template(*ROUTE, *TLS, *KNOWN[:2])
