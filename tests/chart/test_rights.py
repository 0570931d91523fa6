"""The roles of the chart: those of operator/rbac.yaml, of the whole cluster or of one namespace."""

from __future__ import annotations

from controlplane import REPOSITORY
from helmworld import NAMESPACE, Helm, environment, grants, objects, of_kind, rendered_object


def test_the_rights_are_those_of_the_manifest(helm: Helm) -> None:
    manifest = objects((REPOSITORY / "operator" / "rbac.yaml").read_text())
    manifests = helm.template()
    for role in [item for item in manifest if item["kind"] in ("Role", "ClusterRole")]:
        name = role["metadata"]["name"]
        mine = name if role["kind"] == "Role" else f"fairlead-{NAMESPACE}-{name.removeprefix('fairlead-')}"
        if role["metadata"].get("namespace") == "default":
            mine = f"fairlead-{name}"
            assert rendered_object(manifests, "RoleBinding", mine)["metadata"]["namespace"] == "default"
        assert rendered_object(manifests, role["kind"], mine)["rules"] == role["rules"]
    plain = helm.template("--set", "rbac.aggregate=false")
    assert len(of_kind(plain, "Role") + of_kind(plain, "ClusterRole")) == 6


def test_logs_of_pods_are_read_only_where_a_value_grants_it(helm: Helm) -> None:
    for values, role in (((), f"fairlead-{NAMESPACE}-operator"), (("--set", "watchNamespace=team"), None)):
        for granted in (False, True):
            manifests = helm.template(*values, "--set", f"rbac.podLogs={str(granted).lower()}")
            kind = "ClusterRole" if role else "Role"
            rights = grants(rendered_object(manifests, kind, role or f"fairlead-{NAMESPACE}-servers"))
            assert (("", "pods/log", "get") in rights) is granted
            assert (
                "FAIRLEAD_POD_LOGS" in str(rendered_object(manifests, "Deployment", "fairlead-operator"))
            ) is granted


def test_an_operator_of_one_namespace_may_read_the_service_that_owns_what_it_writes(helm: Helm) -> None:
    manifests = helm.template("--set", "watchNamespace=team")
    name = environment(manifests, "operator")["FAIRLEAD_OWNER_SERVICE"]
    assert rendered_object(manifests, "Service", name)["metadata"]["namespace"] == NAMESPACE
    (rule,) = [
        rule
        for rule in rendered_object(manifests, "Role", "fairlead-operator")["rules"]
        if rule["resources"] == ["services"]
    ]
    assert (rule["resourceNames"], rule["verbs"]) == ([name], ["get"])


def test_an_account_of_somebody_else_owns_nothing_because_it_outlives_the_release(helm: Helm) -> None:
    own, other = "operator.serviceAccount.name=ours", "operator.serviceAccount.create=false"
    assert "FAIRLEAD_OWNER_TOKEN" in environment(helm.template("--set", own), "operator")
    assert "FAIRLEAD_OWNER_TOKEN" not in environment(helm.template("--set", f"{own},{other}"), "operator")


def test_roles_and_bindings_of_the_chart_carry_its_labels(helm: Helm) -> None:
    """The page's command that finds leftovers of a failed revision needs these labels."""
    manifests = helm.template("--set", "rbac.secretNamespaces={tools}")
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
        for item in of_kind(manifests, kind):
            labels = item["metadata"]["labels"]
            assert (labels["app.kubernetes.io/name"], labels["app.kubernetes.io/instance"]) == ("fairlead", "fairlead")


def test_the_leases_that_releases_share_are_granted_by_their_names_alone(helm: Helm) -> None:
    """Except `create`, for which RBAC cannot restrict names. Every ServiceAccount may read the Lease of an operator of
    all namespaces."""

    def leases(*values: str) -> set[tuple[str, str, str]]:
        """Namespace, name and verb of rights outside of the release's namespace."""
        manifests = helm.template(*values)
        return {
            (role["metadata"].get("namespace", ""), name, verb)
            for role in of_kind(manifests, "Role") + of_kind(manifests, "ClusterRole")
            for rule in role["rules"]
            for name in rule.get("resourceNames", [""])
            for verb in rule["verbs"]
            if rule["resources"] == ["leases"] and role["metadata"].get("namespace") != NAMESPACE
        }

    single = {("team", "", "create"), ("team", "fairlead-namespace", "get"), ("team", "fairlead-namespace", "update")}
    assert leases("--set", "watchNamespace=team") == single
    assert leases() == {
        ("", "fairlead-namespace", "list"),
        ("default", "", "create"),
        ("default", "fairlead-all-namespaces", "get"),
        ("default", "fairlead-all-namespaces", "update"),
    }
    (readers,) = [
        item
        for item in of_kind(helm.template(), "RoleBinding")
        if item["subjects"][0]["name"] == "system:serviceaccounts"
    ]
    role = rendered_object(helm.template(), "Role", readers["roleRef"]["name"])
    assert grants(role) == {("coordination.k8s.io", "leases", "get")}
    assert role["rules"][0]["resourceNames"] == ["fairlead-all-namespaces"]


def test_with_one_namespace_nothing_is_granted_of_the_whole_cluster(helm: Helm) -> None:
    manifests = helm.template("--set", "watchNamespace=team")
    assert of_kind(manifests, "ClusterRole") == of_kind(manifests, "ClusterRoleBinding") == []


def test_rights_on_tiers_can_be_granted_beside_those_of_one_namespace(helm: Helm) -> None:
    whole = [item for item in of_kind(helm.template(), "ClusterRole") if "-operator" in item["metadata"]["name"]]
    manifests = helm.template("--set", "watchNamespace=team,rbac.latencyTiers=true")
    (left,) = of_kind(manifests, "ClusterRole")
    assert {resource for rule in left["rules"] for resource in rule["resources"]} == {
        "latencytiers",
        "latencytiers/status",
    }
    (moved,) = [role for role in of_kind(manifests, "Role") if role["metadata"]["namespace"] == "team"]
    lease = {("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "list", "update")}
    assert (grants(moved) | grants(left)) - lease == (grants(whole[0]) | grants(whole[1])) - lease
    (binding,) = [item for item in of_kind(manifests, "RoleBinding") if item["metadata"]["namespace"] == "team"]
    assert binding["subjects"][0] == {"kind": "ServiceAccount", "name": "fairlead-operator", "namespace": NAMESPACE}


def test_the_probe_of_the_network_has_the_rights_of_its_manifest_and_only_where_it_is_on(helm: Helm) -> None:
    manifest = objects((REPOSITORY / "operator" / "network-probe.yaml").read_text())
    name = "fairlead-operator-network-probe"
    assert not [item for item in helm.template() if item["metadata"]["name"] == name]
    manifests = helm.template("--set", "networkPolicy.probe.enabled=true,imagePullSecrets[0].name=pull")
    assert rendered_object(manifests, "Role", name)["rules"] == rendered_object(manifest, "Role", name)["rules"]
    assert rendered_object(manifests, "RoleBinding", name)["subjects"][0]["name"] == "fairlead-operator"
    (operator,) = [item for item in of_kind(manifests, "Deployment") if item["metadata"]["name"] == "fairlead-operator"]
    env = {each["name"]: each.get("value") for each in operator["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["FAIRLEAD_NETWORK_POLICY_PROBE"] == "Daily"
    assert env["FAIRLEAD_IMAGE_PULL_SECRETS"] == "pull"
