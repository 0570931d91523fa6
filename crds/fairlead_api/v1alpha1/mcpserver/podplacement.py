"""Placement of pods in a pod template's overlay: affinity, tolerations, spread.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Model, ShortText
from fairlead_api.v1alpha1.names import DnsLabel, LabelName, LabelValue

Weight = Annotated[int, Field(ge=1, le=100)]


class LabelCondition(Model):
    """A condition on one label."""

    key: LabelName
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How it is compared."""
    values: list[LabelValue] | None = Field(default=None, max_length=64)
    """With `In` and `NotIn`."""


class LabelSelection(Model):
    """Objects by their labels; empty: all."""

    atomic: ClassVar[bool] = True

    match_labels: dict[str, LabelValue] | None = Field(default=None, max_length=32)
    """Labels that are as given."""
    match_expressions: list[LabelCondition] | None = Field(default=None, max_length=32)
    """Conditions that hold."""


class NodeCondition(Model):
    """A condition on a label or field of a node."""

    key: LabelName
    """The label or field."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How it is compared."""
    values: list[ShortText] | None = Field(default=None, max_length=64)
    """Values that it is compared with."""


class NodeTerm(Model):
    """Nodes for which all conditions hold."""

    atomic: ClassVar[bool] = True

    match_expressions: list[NodeCondition] | None = Field(default=None, max_length=32)
    """Conditions on labels."""
    match_fields: list[NodeCondition] | None = Field(default=None, max_length=32)
    """Conditions on fields."""


class NodeTerms(Model):
    """Nodes for which one of the terms holds."""

    atomic: ClassVar[bool] = True

    node_selector_terms: list[NodeTerm] = Field(max_length=32)
    """The terms."""


class PreferredNodes(Model):
    """Nodes that are better than others."""

    weight: Weight
    """How much better."""
    preference: NodeTerm
    """Which nodes."""


class NodeAffinity(Model):
    """Nodes by their labels."""

    required: NodeTerms | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    """No other node will do."""
    preferred: list[PreferredNodes] | None = Field(
        default=None, max_length=32, alias="preferredDuringSchedulingIgnoredDuringExecution"
    )
    """Better nodes."""


class PodTerm(Model):
    """Pods in whose neighbourhood it is, or is not, placed."""

    label_selector: LabelSelection | None = None
    """Which pods."""
    namespaces: list[DnsLabel] | None = Field(default=None, max_length=32)
    """Their namespaces. Absent, with the next too: its own."""
    namespace_selector: LabelSelection | None = None
    """Labels of their namespaces."""
    topology_key: LabelName
    """Label of nodes that are one neighbourhood."""
    match_label_keys: list[LabelName] | None = Field(default=None, max_length=32)
    """Labels whose values are the pod's own."""
    mismatch_label_keys: list[LabelName] | None = Field(default=None, max_length=32)
    """Labels whose values are not the pod's own."""


class WeightedPodTerm(Model):
    """Neighbourhoods that are better than others."""

    weight: Weight
    """How much better."""
    pod_affinity_term: PodTerm
    """Which pods."""


class PodAffinity(Model):
    """Pods that it is placed near to, or away from."""

    required: list[PodTerm] | None = Field(
        default=None, max_length=32, alias="requiredDuringSchedulingIgnoredDuringExecution"
    )
    """Nothing else will do."""
    preferred: list[WeightedPodTerm] | None = Field(
        default=None, max_length=32, alias="preferredDuringSchedulingIgnoredDuringExecution"
    )
    """Better places."""


class PodAffinityRules(Model):
    """Nodes and pods that a pod is placed by."""

    node_affinity: NodeAffinity | None = None
    """Nodes."""
    pod_affinity: PodAffinity | None = None
    """Pods to be near to."""
    pod_anti_affinity: PodAffinity | None = None
    """Pods to be away from."""


class Toleration(Model):
    """A taint that does not keep the pod away."""

    key: LabelName | None = None
    """Taint. Absent, with `Exists`: every one."""
    operator: Literal["Exists", "Equal"] | None = None
    """Absent: `Equal`."""
    value: LabelValue | None = None
    """Value of the taint, with `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Absent: every effect."""
    toleration_seconds: int | None = None
    """How long it stays, with `NoExecute`."""


class TopologySpreadConstraint(Model):
    """How evenly replicas are spread."""

    max_skew: int = Field(ge=1, le=1000)
    """Greatest difference between two neighbourhoods."""
    topology_key: LabelName
    """Label of nodes that are one neighbourhood."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Outcome where it cannot be kept."""
    label_selector: LabelSelection | None = None
    """Which pods are counted."""
    min_domains: int | None = Field(default=None, ge=1, le=1000)
    """Least neighbourhoods that there have to be."""
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    """Whether only nodes that fit are counted."""
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    """Whether tainted nodes are left out."""
    match_label_keys: list[LabelName] | None = Field(default=None, max_length=32)
    """Labels whose values are the pod's own."""
