"""Pure decisions about one server: acceptance, prefixes, overlays, workloads."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.ports import Environment
from fairlead_operator.server import deployment_status
from fairlead_operator.server.overlay import merge
from fairlead_operator.server.prefixes import Prefixes, requested_prefix
from fairlead_operator.server.spec_checks import check
from fairlead_operator.server.symptoms import Symptom
from operatorfakes import mcp_server

IMAGE = {"image": {"name": "demo:1"}}
STUCK = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
PACKAGE = {"package": {"registry": "pypi", "name": "demo", "version": "1"}}


@pytest.mark.parametrize(
    ("spec", "environment", "words"),
    [
        (IMAGE, "cluster", None),
        ({"url": "https://a.example/mcp"}, "cluster", None),
        ({"url": "https://a.example/mcp"}, "local", None),
        ({"command": ["demo"]}, "local", None),
        (PACKAGE, "local", None),
        ({"command": ["demo"]}, "cluster", "for `fairlead up` only"),
        (PACKAGE, "cluster", None),
        (IMAGE, "local", "needs a cluster"),
        ({"image": {"name": "x", "command": ["demo"], "transport": "stdio"}}, "cluster", None),
        ({"image": {"name": "x", "transport": "sse"}}, "cluster", None),
        ({"url": "https://a.example/sse", "remote": {"transport": "sse"}}, "local", None),
    ],
)
def test_a_spec_is_accepted_or_refused_with_a_sentence(
    spec: dict[str, Any], environment: Environment, words: str | None
) -> None:
    verdict = check(mcp_server(**spec), environment)
    assert verdict.ok is (words is None)
    if words is not None:
        assert verdict.cause == "NotSupportedHere"
        assert words in verdict.message


@pytest.mark.parametrize(
    ("resources", "overlay", "words"),
    [
        ({"requests": {"memory": "1Gi"}}, {"limits": {"memory": "512Mi"}}, "requests must not exceed limits"),
        (None, {"limits": {"memory": "64m"}}, "must be at least 1Mi"),
        (None, {"requests": {"cpu": "64Mi"}}, "cpu must be at most"),
        ({"requests": {"memory": "64Mi"}}, {"limits": {"memory": "512Mi"}}, None),
    ],
)
def test_resources_that_no_pod_can_have_are_refused_where_a_pod_template_makes_them(
    resources: dict[str, Any] | None, overlay: dict[str, Any], words: str | None
) -> None:
    template = {"spec": {"containers": [{"name": "server", "resources": overlay}]}}
    verdict = check(
        mcp_server(url=None, image={"name": "demo:1"}, resources=resources, podTemplate=template), "cluster"
    )
    assert verdict.ok is (words is None)
    if words is not None:
        assert verdict.cause == "Invalid"
        assert verdict.message.startswith("resources of the container server in the pod template: ")
        assert words in verdict.message


def test_the_default_prefix_depends_on_name_namespace_and_style_alone() -> None:
    assert requested_prefix(mcp_server("demo"), "name") == "demo"
    assert requested_prefix(mcp_server("demo"), "namespace-name") == "team-demo"
    assert requested_prefix(mcp_server("demo", prefix="mine"), "namespace-name") == "mine"


def test_the_oldest_holds_a_prefix_in_whatever_order_the_servers_are_seen() -> None:
    old = mcp_server("old", age=60, prefix="p")
    young = mcp_server("young", age=1, prefix="p")
    for order in ([old, young], [young, old]):
        prefixes = Prefixes("name")
        for server in order:
            prefixes.claim(server)
        assert prefixes.holder("p") == old.key


def test_namespace_and_name_decide_between_servers_of_one_age() -> None:
    prefixes = Prefixes("name")
    prefixes.claim(mcp_server("b", prefix="p"))
    prefixes.claim(mcp_server("a", prefix="p"))
    assert prefixes.holder("p") == ServerKey("team", "a")


def test_a_default_prefix_is_taken_by_an_older_explicit_one() -> None:
    prefixes = Prefixes("name")
    prefixes.claim(mcp_server("demo", age=1))
    assert prefixes.claim(mcp_server("other", age=60, prefix="demo")) == {ServerKey("team", "demo")}
    assert prefixes.holder("demo") == ServerKey("team", "other")


def test_a_server_that_waits_for_a_prefix_is_named_when_it_becomes_free() -> None:
    prefixes = Prefixes("name")
    holder = mcp_server("old", age=60, prefix="p")
    waiting = mcp_server("young", prefix="p")
    prefixes.claim(holder)
    assert prefixes.claim(waiting) == set()
    assert prefixes.release(holder.key) == {waiting.key}
    assert prefixes.holder("p") == waiting.key
    assert prefixes.release(waiting.key) == set()
    assert prefixes.holder("p") is None


def test_a_server_that_changes_its_prefix_frees_the_old_one() -> None:
    prefixes = Prefixes("name")
    prefixes.claim(mcp_server("old", age=60, prefix="p"))
    prefixes.claim(mcp_server("young", prefix="p"))
    assert prefixes.claim(mcp_server("old", age=60, prefix="q")) == {ServerKey("team", "young")}
    assert prefixes.holder("p") == ServerKey("team", "young")
    assert prefixes.claim(mcp_server("old", age=60, prefix="q")) == set()


@pytest.mark.parametrize(
    ("base", "overlay", "result"),
    [
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        (
            {"containers": [{"name": "server", "image": "a"}]},
            {"containers": [{"name": "server", "tty": True}, {"name": "side"}]},
            {"containers": [{"name": "server", "image": "a", "tty": True}, {"name": "side"}]},
        ),
        (
            {"volumes": [{"name": "a"}, {"name": "b"}]},
            {"volumes": [{"name": "a", "$patch": "delete"}]},
            {"volumes": [{"name": "b"}]},
        ),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({"args": ["a"]}, {"args": ["b", "c"]}, {"args": ["b", "c"]}),
        ({"s": {"a": 1}}, {"s": {"$patch": "replace", "b": 2}}, {"s": {"b": 2}}),
        (
            {"volumeMounts": [{"mountPath": "/data", "name": "small"}]},
            {"volumeMounts": [{"mountPath": "/data", "name": "big"}]},
            {"volumeMounts": [{"mountPath": "/data", "name": "big"}]},
        ),
    ],
)
def test_a_pod_template_is_merged_strategically(base: Any, overlay: Any, result: Any) -> None:
    assert merge(base, overlay) == result


HANDLERS: dict[str, dict[str, Any]] = {
    "exec": {"command": ["true"]},
    "httpGet": {"path": "/healthz", "port": 8080},
    "tcpSocket": {"port": 8080},
    "grpc": {"port": 8080},
}


@pytest.mark.parametrize("generated", HANDLERS)
@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("probe", ["readinessProbe", "livenessProbe", "startupProbe"])
def test_a_probe_of_a_pod_template_replaces_the_handler_below_and_keeps_its_timings(
    probe: str, handler: str, generated: str
) -> None:
    below = {probe: {generated: HANDLERS[generated], "periodSeconds": 5, "failureThreshold": 3}}
    result = merge(below, {probe: {handler: HANDLERS[handler], "periodSeconds": 9}})
    assert result == {probe: {handler: HANDLERS[handler], "periodSeconds": 9, "failureThreshold": 3}}


def test_timings_of_a_pod_template_leave_the_handler_of_a_probe_alone() -> None:
    below = {"readinessProbe": {"tcpSocket": {"port": "mcp"}, "periodSeconds": 5}}
    result = merge(below, {"readinessProbe": {"periodSeconds": 9, "httpGet": None}})
    assert result == {"readinessProbe": {"tcpSocket": {"port": "mcp"}, "periodSeconds": 9}}


@pytest.mark.parametrize(
    ("base", "overlay", "result"),
    [
        (
            {"lifecycle": {"preStop": {"exec": {"command": ["a"]}}, "stopSignal": "SIGINT"}},
            {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
            {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}, "stopSignal": "SIGINT"}},
        ),
        (
            {"volumes": [{"name": "home", "emptyDir": {}}]},
            {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "a"}}]},
            {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "a"}}]},
        ),
        (
            {"volumes": [{"name": "home", "emptyDir": {"medium": "Memory"}}]},
            {"volumes": [{"name": "home", "emptyDir": {"sizeLimit": "1Gi"}}]},
            {"volumes": [{"name": "home", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]},
        ),
        (
            {"env": [{"name": "A", "value": "a"}]},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            {"env": [{"name": "A", "value": ""}]},
            {"env": [{"name": "A", "value": ""}]},
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        ),
        (
            {"securityContext": {"runAsUser": 1, "seccompProfile": {"type": "Localhost", "localhostProfile": "a"}}},
            {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
            {"securityContext": {"runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}}},
        ),
        (
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}]},
            {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "b"}]},
            {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "b"}]},
        ),
    ],
)
def test_a_member_of_a_union_in_a_pod_template_replaces_another_one(base: Any, overlay: Any, result: Any) -> None:
    assert merge(base, overlay) == result


def up(generation: int = 1) -> dict[str, Any]:
    """A status with the condition Programmed, as when the pods run."""
    return {
        "conditions": [
            {
                "type": "Programmed",
                "status": "True",
                "reason": "Programmed",
                "observedGeneration": generation,
                "lastTransitionTime": "2026-11-20T12:00:00Z",
            }
        ]
    }


@pytest.mark.parametrize(
    ("spec", "shown", "status", "ok", "reason", "down"),
    [
        ({}, {}, {}, None, "Deploying", False),
        ({}, {}, {"availableReplicas": 1}, True, "Programmed", False),
        ({"replicas": 0}, {}, {"availableReplicas": 1}, False, "Stopped", False),
        ({}, up(), {"unavailableReplicas": 1}, True, "Programmed", True),
        ({}, up(generation=0), {"unavailableReplicas": 1}, None, "Deploying", False),
        (
            {},
            up(),
            {"observedGeneration": 1, "conditions": [STUCK]},
            False,
            "DeploymentFailed",
            False,
        ),
        (
            {},
            {},
            {"observedGeneration": 0, "conditions": [STUCK]},
            None,
            "Deploying",
            False,
        ),
        (
            {},
            {},
            {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]},
            False,
            "DeploymentFailed",
            False,
        ),
    ],
)
def test_a_deployments_status_is_judged(
    spec: dict[str, Any], shown: dict[str, Any], status: dict[str, Any], ok: bool | None, reason: str, down: bool
) -> None:
    server = mcp_server(image={"name": "demo:1"}, **spec)
    server = type(server).model_validate({**server.to_wire(), "status": shown})
    verdict, lost = deployment_status.judge(server, 1, status)
    assert (verdict.ok, verdict.cause, lost is not None) == (ok, reason, down)


REFUSED = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: q"}
NOT_PULLED = Symptom(Cause.IMAGE_PULL_FAILED, "demo:9 cannot be pulled")
INSTALLING = Symptom(Cause.INSTALLING, "the package is being installed", needs_change=False)


@pytest.mark.parametrize(
    ("counts", "conditions", "symptom", "words"),
    [
        ((1, 1, 1), [REFUSED], None, "1 of 3 pods are up, and others cannot start: pods cannot be created: exceeded"),
        ((2, 3, 3), [], NOT_PULLED, "2 of 3 pods are up, and others cannot start: ImagePullFailed: demo:9 cannot be"),
        ((3, 4, 1), [], NOT_PULLED, "pods of an earlier spec serve, and others cannot start: ImagePullFailed: demo:9"),
        ((3, 4, 1), [STUCK], None, "pods of an earlier spec serve, and others cannot start: no pod became available"),
        ((3, 4, 1), [], INSTALLING, None),
        ((2, 3, 3), [], None, None),
        ((3, 3, 3), [], NOT_PULLED, None),
        ((0, 3, 3), [REFUSED], NOT_PULLED, None),
    ],
)
def test_pods_that_cannot_start_beside_others_that_serve_are_told(
    counts: tuple[int, int, int], conditions: list[dict[str, str]], symptom: Symptom | None, words: str | None
) -> None:
    server = mcp_server(image={"name": "demo:1"}, replicas=3)
    available, total, updated = counts
    status = {"availableReplicas": available, "replicas": total, "updatedReplicas": updated, "observedGeneration": 1}
    verdict = deployment_status.missing_pods(server, 1, {**status, "conditions": conditions}, symptom)
    if words is None:
        assert verdict is None
    else:
        assert verdict is not None
        assert verdict.message.startswith(words)


OLD_QUOTA = 'pods "demo-old-vnmms" is forbidden: failed quota: q: must specify limits.memory for: server'
NEW_QUOTA = 'pods "demo-new-vnmms" is forbidden: exceeded quota: q'
ROLLS = {"type": "Progressing", "status": "True", "message": 'ReplicaSet "demo-new" is progressing.'}


@pytest.mark.parametrize(
    ("refusal", "updated", "words"),
    [
        (OLD_QUOTA, 2, "pods cannot be created; kubectl describe replicaset demo-new --namespace team shows why"),
        (NEW_QUOTA, 2, f"pods cannot be created: {NEW_QUOTA}"),
        ("admission webhook denied the request", 2, "pods cannot be created: admission webhook denied the request"),
        (OLD_QUOTA, 3, None),
    ],
)
def test_a_refusal_of_pods_of_an_earlier_spec_is_not_quoted_as_the_reason_of_the_present_one(
    refusal: str, updated: int, words: str | None
) -> None:
    server = mcp_server(image={"name": "demo:1"}, replicas=3)
    conditions = [{**REFUSED, "message": refusal}, ROLLS]
    status = {"replicas": updated, "updatedReplicas": updated, "observedGeneration": 1, "conditions": conditions}
    verdict, _ = deployment_status.judge(server, 1, status)
    assert (verdict.cause, verdict.message if words else None) == (
        "DeploymentFailed" if words else "Deploying",
        words,
    )
    missing = deployment_status.missing_pods(server, 1, {**status, "availableReplicas": 2}, NOT_PULLED)
    assert missing is None or (words or "ImagePullFailed: demo:9") in missing.message


def test_a_rollout_is_told_apart_from_its_begin_and_its_end() -> None:
    stages = [
        {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2},
        {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1},
        {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2},
    ]
    revisions = [deployment_status.rollout_revision(2, stage) for stage in stages]
    assert len(set(revisions)) == 3
    assert deployment_status.rollout_revision(2, stages[2]) == deployment_status.rollout_revision(
        2, {**stages[2], "availableReplicas": 2}
    )
