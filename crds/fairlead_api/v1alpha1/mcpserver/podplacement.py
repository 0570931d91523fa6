"""Placement of pods in a pod template's overlay: affinity, tolerations, topology spread.

This module has no I/O.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Model, ShortText
from fairlead_api.v1alpha1.names import DnsLabel, LabelName, LabelValue
from fairlead_api.v1alpha1.rules import ValidationRule

Weight = Annotated[int, Field(ge=1, le=100)]


class LabelCondition(Model):
    """A condition on one label."""

    key: LabelName
    """Name of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with `values`."""
    values: list[LabelValue] | None = Field(default=None, max_length=64)
    """Values for `In` and `NotIn`."""


class LabelSelection(Model):
    """Selects objects by their labels; empty selects all."""

    atomic: ClassVar[bool] = True

    match_labels: dict[str, LabelValue] | None = Field(default=None, max_length=32)
    """Labels with exactly these values."""
    match_expressions: list[LabelCondition] | None = Field(default=None, max_length=32)
    """Conditions on labels, all of which must hold."""


class NodeCondition(Model):
    """A condition on a label or field of a node."""

    key: LabelName
    """Name of the label or field."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label or field is compared with `values`."""
    values: list[ShortText] | None = Field(default=None, max_length=64)
    """Values to compare with."""


class NodeTerm(Model):
    """Nodes that meet all conditions."""

    atomic: ClassVar[bool] = True

    match_expressions: list[NodeCondition] | None = Field(default=None, max_length=32)
    """Conditions on labels."""
    match_fields: list[NodeCondition] | None = Field(default=None, max_length=32)
    """Conditions on fields."""


class NodeTerms(Model):
    """Nodes that meet any of the terms."""

    atomic: ClassVar[bool] = True

    node_selector_terms: list[NodeTerm] = Field(max_length=32)
    """The terms."""


class PreferredNodes(Model):
    """Nodes that are preferred."""

    weight: Weight
    """Weight of the preference, from 1 to 100."""
    preference: NodeTerm
    """The preferred nodes."""


class NodeAffinity(Model):
    """Requirements on and preferences for nodes."""

    required: NodeTerms | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    """Nodes that the pod must run on."""
    preferred: list[PreferredNodes] | None = Field(
        default=None, max_length=32, alias="preferredDuringSchedulingIgnoredDuringExecution"
    )
    """Nodes that the pod should run on."""


class PodTerm(Model):
    """Pods in whose topology domain the pod is, or is not, placed."""

    label_selector: LabelSelection | None = None
    """Labels of these pods."""
    namespaces: list[DnsLabel] | None = Field(default=None, max_length=32)
    """Namespaces of these pods. Absent, and without `namespaceSelector`: the pod's own."""
    namespace_selector: LabelSelection | None = None
    """Labels of the namespaces of these pods."""
    topology_key: LabelName
    """Label of nodes whose value is the topology domain, such as `topology.kubernetes.io/zone`."""
    match_label_keys: list[LabelName] | None = Field(default=None, max_length=32)
    """Labels that must have the same value as on the pod itself."""
    mismatch_label_keys: list[LabelName] | None = Field(default=None, max_length=32)
    """Labels that must have another value than on the pod itself."""


class WeightedPodTerm(Model):
    """Topology domains that are preferred."""

    weight: Weight
    """Weight of the preference, from 1 to 100."""
    pod_affinity_term: PodTerm
    """The pods in those domains."""


class PodAffinity(Model):
    """Pods that the pod is placed near to, or away from."""

    required: list[PodTerm] | None = Field(
        default=None, max_length=32, alias="requiredDuringSchedulingIgnoredDuringExecution"
    )
    """Requirements that must be met."""
    preferred: list[WeightedPodTerm] | None = Field(
        default=None, max_length=32, alias="preferredDuringSchedulingIgnoredDuringExecution"
    )
    """Preferences, with weights."""


class PodAffinityRules(Model):
    """Affinity to nodes and pods."""

    node_affinity: NodeAffinity | None = None
    """Affinity to nodes."""
    pod_affinity: PodAffinity | None = None
    """Pods to run near to."""
    pod_anti_affinity: PodAffinity | None = None
    """Pods to run away from."""


class Toleration(Model):
    """A taint that the pod tolerates."""

    key: LabelName | None = None
    """Key of the taint. Absent, with `Exists`: every taint."""
    operator: Literal["Exists", "Equal"] | None = None
    """How the value is compared. Absent: `Equal`."""
    value: LabelValue | None = None
    """Value of the taint, with `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Absent: every effect."""
    toleration_seconds: int | None = None
    """Seconds that the pod stays on the node, with `NoExecute`."""


class TopologySpreadConstraint(Model):
    """How evenly replicas are spread over topology domains."""

    max_skew: int = Field(ge=1, le=1000)
    """Largest difference between the numbers of pods in two domains."""
    topology_key: LabelName
    """Label of nodes whose value is the topology domain, such as `topology.kubernetes.io/zone`."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Action if the constraint cannot be met."""
    label_selector: LabelSelection | None = None
    """Labels of the pods that are counted."""
    min_domains: int | None = Field(default=None, ge=1, le=1000)
    """Smallest number of domains."""
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    """Whether only nodes that the pod's node affinity matches are counted."""
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    """Whether nodes with taints that the pod does not tolerate are left out."""
    match_label_keys: list[LabelName] | None = Field(default=None, max_length=32)
    """Labels that must have the same value as on the pod itself."""


SPREAD_ONCE: Final = ValidationRule(
    cel="self.all(one, self.exists_one(other, other.topologyKey == one.topologyKey && "
    "other.whenUnsatisfiable == one.whenUnsatisfiable))",
    message="each pair of topologyKey and whenUnsatisfiable may occur once only: the API server rejects such pods",
    holds=lambda constraints: (
        len({(each.topology_key, each.when_unsatisfiable) for each in constraints}) == len(constraints)
    ),
)
