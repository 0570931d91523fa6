"""IP address families: addresses on which pods listen, and addresses of Services."""

from __future__ import annotations

import pytest

from helmworld import Helm, Refused, environment, of_kind, rendered_object

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("component", ["operator", "gateway"])
def test_pods_learn_their_addresses_and_listen_on_those(helm: Helm, component: str) -> None:
    variables = environment(helm.template(), component)
    assert variables["FAIRLEAD_POD_IPS"] == {"fieldRef": {"fieldPath": "status.podIPs"}}
    assert not {"FAIRLEAD_HOST", "FAIRLEAD_METRICS_HOST"} & set(variables)


def test_an_address_of_the_values_goes_before_those_of_the_pod(helm: Helm) -> None:
    manifests = helm.template("--set", "gateway.settings.host=::", "--set", "operator.settings.metricsHost=0.0.0.0")
    assert environment(manifests, "gateway")["FAIRLEAD_HOST"] == "::"
    assert environment(manifests, "operator")["FAIRLEAD_METRICS_HOST"] == "0.0.0.0"


def test_services_that_list_pods_have_one_address_for_each(helm: Helm) -> None:
    services = of_kind(helm.template("--set", "gateway.service.ipFamilyPolicy=RequireDualStack"), "Service")
    headless = [each for each in services if each["spec"].get("clusterIP") == "None"]
    assert len(headless) == 2
    assert {each["spec"]["ipFamilyPolicy"] for each in headless} == {"SingleStack"}
    assert [each for each in headless if "ipFamilies" in each["spec"]] == []


def test_the_service_of_clients_has_the_families_of_the_values(helm: Helm) -> None:
    usual = rendered_object(helm.template(), "Service", "fairlead-gateway")["spec"]
    assert not {"ipFamilyPolicy", "ipFamilies"} & set(usual), "what the cluster does by itself"
    words = ("gateway.service.ipFamilyPolicy=PreferDualStack", "gateway.service.ipFamilies={IPv6,IPv4}")
    both = rendered_object(helm.template("--set", words[0], "--set", words[1]), "Service", "fairlead-gateway")["spec"]
    assert (both["ipFamilyPolicy"], both["ipFamilies"]) == ("PreferDualStack", ["IPv6", "IPv4"])


@pytest.mark.parametrize("value", ["ipFamilyPolicy=DualStack", "ipFamilies={ipv6}", "ipFamilies={IPv6,IPv6}"])
def test_a_family_that_does_not_exist_is_refused(helm: Helm, value: str) -> None:
    with pytest.raises(Refused, match=r"/gateway/service/ipFamil"):
        helm.template("--set", f"gateway.service.{value}")
