"""The answers of the network probe, and its treatment of other policies."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fairlead_operator.enforcement.manifests import (
    LABEL,
    ProbePods,
    client_job,
    network_policy,
    opening_policies,
    target_job,
)
from fairlead_operator.enforcement.probe import delay_reason
from fairlead_operator.enforcement.probe_answer import Enforcement, ProbeRecord, parse_answer

Json = dict[str, Any]
JOB: Json = {"metadata": {"name": "fairlead-network-probe", "uid": "u1"}}
PODS = ProbePods("registry.example/fairlead:1", ("pull",))


@pytest.mark.parametrize(
    ("answer_line", "ok", "cause", "words"),
    [
        ("incoming=held outgoing=held\n", True, "NetworkPolicyEnforced", "both directions"),
        ("incoming=open outgoing=open", False, "NetworkPolicyNotEnforced", "any pod of the cluster can connect"),
        ("incoming=open outgoing=held", False, "NetworkPolicyNotEnforced", "for ingress"),
        ("incoming=held outgoing=open", False, "NetworkPolicyNotEnforced", "spec.network.egress has no effect"),
    ],
)
def test_a_direction_that_is_open_is_told_with_what_that_means(
    answer_line: str, ok: bool, cause: str, words: str
) -> None:
    answer = parse_answer(answer_line)
    assert answer is not None
    verdict = answer.verdict()
    assert (verdict.ok, verdict.cause) == (ok, cause)
    assert words in verdict.message


@pytest.mark.parametrize("answer_line", ["", "allowed=held", "incoming=held", "incoming=maybe outgoing=held", "Error"])
def test_other_last_words_of_a_probe_are_not_an_answer(answer_line: str) -> None:
    assert parse_answer(answer_line) is None


def test_a_network_probe_without_an_answer_says_why_and_how_to_try_again() -> None:
    verdict = Enforcement(unknown_reason="no node accepts the server's pod").verdict()
    assert verdict.ok is None
    assert verdict.message.startswith("no node accepts the server's pod; repeated after a day")
    assert "fairlead-network-policies" in verdict.message


@pytest.mark.parametrize("answer", [Enforcement(True, False), Enforcement(None, None, "why")])
def test_a_record_is_read_as_it_was_written(answer: Enforcement) -> None:
    for unended in (0, 2):
        record = ProbeRecord(datetime(2026, 11, 23, 7, 0, tzinfo=UTC), answer, unended)
        assert ProbeRecord.read(record.data()) == record


@pytest.mark.parametrize(
    "change", [{"checkedAt": "yesterday"}, {"checkedAt": "2026-11-23"}, {"incoming": "maybe"}, {"unended": "x"}]
)
def test_a_probe_record_that_somebody_edited_is_ignored(change: dict[str, str]) -> None:
    record = ProbeRecord(datetime(2026, 11, 23, 7, 0, tzinfo=UTC), Enforcement(True, True))
    assert ProbeRecord.read({**record.data(), **change}) is None
    assert ProbeRecord.read({}) is None


def policy(selector: Json, rules: list[Json], *, kind: str = "Ingress") -> Json:
    member = kind.lower()
    return {"metadata": {"name": "other"}, "spec": {"podSelector": selector, "policyTypes": [kind], member: rules}}


@pytest.mark.parametrize(
    ("other", "suspected"),
    [
        (policy({}, [{}]), True),
        (policy({}, []), False),
        (policy({}, [{"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]}]), False),
        (policy({}, [{"ports": [{"port": 7000, "endPort": 7100}]}]), True),
        (policy({}, [{"ports": [{"port": "http"}]}]), False),
        (policy({}, [{"ports": [{"protocol": "TCP"}]}]), True),
        (policy({"matchLabels": {"app": "web"}}, [{}]), False),
        (policy({"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]}, [{}]), False),
        (policy({}, [{}], kind="Egress"), False),
        (policy({"matchLabels": {f"label-{number}": "x" for number in range(60)}}, [{}]), True),
    ],
)
def test_a_policy_that_may_let_the_probe_in_is_named(other: Json, suspected: bool) -> None:
    assert opening_policies([other], "incoming") == (["other"] if suspected else [])


def test_the_own_policy_lets_the_probe_in_neither_way() -> None:
    own = network_policy(JOB)
    assert opening_policies([own], "incoming") == opening_policies([own], "outgoing") == []


@pytest.mark.parametrize("job", [target_job(PODS, []), client_job(PODS, JOB, "10.0.0.7")])
def test_pods_of_the_network_probe_are_restricted_bounded_and_go_by_themselves(job: Json) -> None:
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (0, 180, 60)
    pod = spec["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["securityContext"]["runAsUser"] == 65532
    (container,) = pod["containers"]
    assert set(container["resources"]["requests"]) == set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert "$(" not in "".join(container["command"])  # Kubernetes would expand it as a variable


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
            "the image cannot be fetched: no such",
        ),
        ({"running": {}}, "the pod fairlead-network-probe did not start in time"),
    ],
)
def test_a_probe_that_does_not_end_says_what_ails_its_pod(state: Json, words: str) -> None:
    pod = {**JOB, "status": {"containerStatuses": [{"name": "probe", "state": state}]}}
    assert delay_reason(pod).startswith(words)


def test_user_ids_are_left_to_a_cluster_that_assigns_them() -> None:
    pod = target_job(replace(PODS, assigned_ids=True), [])["spec"]["template"]["spec"]
    assert "runAsUser" not in pod["securityContext"]
