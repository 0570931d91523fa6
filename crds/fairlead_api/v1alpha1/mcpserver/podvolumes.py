"""Volumes of a pod template's overlay: what holds no file of the node and no token of the API server.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Model, Quantity, ShortText
from fairlead_api.v1alpha1.mcpserver.container import FieldSelector, ResourceFieldSelector
from fairlead_api.v1alpha1.mcpserver.podplacement import LabelSelection
from fairlead_api.v1alpha1.names import DnsLabel, LabelValue, ObjectName

FileMode = Annotated[int, Field(ge=0, le=511)]
RelativePath = Annotated[str, Field(min_length=1, max_length=1024)]
AnyName = Annotated[str, Field(max_length=253)]


class KeyToPath(Model):
    """One key as a file."""

    key: ShortText
    """The key."""
    path: RelativePath
    """Path of the file within the volume."""
    mode: FileMode | None = None
    """Permissions of the file."""


class EmptyDirVolume(Model):
    """An empty folder that lives as long as the pod."""

    medium: Literal["", "Memory", "HugePages"] | None = None
    """`Memory` keeps it there."""
    size_limit: Quantity | None = None
    """Most that it may hold."""


class ConfigMapVolume(Model):
    """Keys of a ConfigMap as files."""

    name: AnyName | None = None
    """Name of the ConfigMap."""
    items: list[KeyToPath] | None = Field(default=None, max_length=128)
    """Which keys. Absent: all."""
    default_mode: FileMode | None = None
    """Permissions of the files."""
    optional: bool | None = None
    """Whether it may be missing."""


class SecretVolume(Model):
    """Keys of a Secret, labelled `fairlead.dev/credential: "true"`, as files."""

    secret_name: AnyName | None = None
    """Name of the Secret."""
    items: list[KeyToPath] | None = Field(default=None, max_length=128)
    """Which keys. Absent: all."""
    default_mode: FileMode | None = None
    """Permissions of the files."""
    optional: bool | None = None
    """Whether it may be missing."""


class DownwardFile(Model):
    """A figure or field of the pod as a file."""

    path: RelativePath
    """Path of the file within the volume."""
    field_ref: FieldSelector | None = None
    """A field."""
    resource_field_ref: ResourceFieldSelector | None = None
    """A resource figure."""
    mode: FileMode | None = None
    """Permissions of the file."""


class DownwardVolume(Model):
    """Fields of the pod as files."""

    items: list[DownwardFile] | None = Field(default=None, max_length=64)
    """The files."""
    default_mode: FileMode | None = None
    """Permissions of the files."""


class ClaimVolume(Model):
    """A PersistentVolumeClaim of the namespace."""

    claim_name: ObjectName
    """Its name."""
    read_only: bool | None = None
    """Absent: no."""


class ClaimMetadata(Model):
    """Labels and annotations of a claim."""

    labels: dict[str, LabelValue] | None = Field(default=None, max_length=64)
    """Labels."""
    annotations: dict[str, str] | None = Field(default=None, max_length=64)
    """Annotations."""


class DataSource(Model):
    """Object that a claim is filled from."""

    atomic: ClassVar[bool] = True

    api_group: AnyName | None = None
    """Its group; absent for a claim."""
    kind: ShortText
    """Its kind."""
    name: ShortText
    """Its name."""


class ClaimResources(Model):
    """Size of a claim."""

    requests: dict[str, Quantity] | None = Field(default=None, max_length=1)
    """`storage` is its size."""
    limits: dict[str, Quantity] | None = Field(default=None, max_length=1)
    """`storage` is the most that it may grow to."""


class ClaimSpec(Model):
    """Demands on the storage."""

    access_modes: list[ShortText] | None = Field(default=None, max_length=8)
    """Such as `ReadWriteOnce`."""
    resources: ClaimResources | None = None
    """`requests.storage` is its size."""
    storage_class_name: AnyName | None = None
    """Absent: the cluster's default."""
    volume_mode: Literal["Filesystem"] | None = None
    """`Filesystem`."""
    volume_name: AnyName | None = None
    """A volume that exists."""
    selector: LabelSelection | None = None
    """Labels of the volume."""
    data_source: DataSource | None = None
    """Object that it is filled from."""


class ClaimTemplate(Model):
    """A claim that is made with the pod."""

    metadata: ClaimMetadata | None = None
    """Labels and annotations."""
    spec: ClaimSpec
    """Demands on the storage."""


class EphemeralVolume(Model):
    """A claim that is made with the pod and goes with it."""

    volume_claim_template: ClaimTemplate
    """The claim."""


class ProjectedConfigMap(Model):
    """Keys of a ConfigMap."""

    name: AnyName | None = None
    """Name of the ConfigMap."""
    items: list[KeyToPath] | None = Field(default=None, max_length=128)
    """Which keys. Absent: all."""
    optional: bool | None = None
    """Whether it may be missing."""


class ProjectedSecret(ProjectedConfigMap):
    """Keys of a Secret that is labelled `fairlead.dev/credential: "true"`."""


class ProjectedDownward(Model):
    """Fields of the pod."""

    items: list[DownwardFile] | None = Field(default=None, max_length=64)
    """The files."""


class TrustBundle(Model):
    """Certificates of a ClusterTrustBundle."""

    name: AnyName | None = None
    """Name of one bundle."""
    signer_name: AnyName | None = None
    """All of a signer."""
    label_selector: LabelSelection | None = None
    """Which of them."""
    optional: bool | None = None
    """Whether it may be missing."""
    path: RelativePath
    """Path of the file within the volume."""


class ProjectedSource(Model):
    """One of the sources; a token of the API server is none of them."""

    config_map: ProjectedConfigMap | None = None
    """Keys of a ConfigMap."""
    secret: ProjectedSecret | None = None
    """Keys of a Secret."""
    downward_api: ProjectedDownward | None = Field(default=None, alias="downwardAPI")
    """Fields of the pod."""
    cluster_trust_bundle: TrustBundle | None = None
    """Certificates."""


class ProjectedVolume(Model):
    """Several sources in one folder."""

    sources: list[ProjectedSource] | None = Field(default=None, max_length=32)
    """The sources."""
    default_mode: FileMode | None = None
    """Permissions of the files."""


class PodVolume(Model):
    """A volume: its name and one of the other members, each of which `null` takes away."""

    removable: ClassVar[frozenset[str]] = frozenset({"emptyDir"})

    name: DnsLabel
    """Its name."""
    empty_dir: EmptyDirVolume | None = None
    """An empty folder; `null` where a generated one gets another source."""
    config_map: ConfigMapVolume | None = None
    """Keys of a ConfigMap."""
    secret: SecretVolume | None = None
    """Keys of a Secret."""
    downward_api: DownwardVolume | None = Field(default=None, alias="downwardAPI")
    """Fields of the pod."""
    persistent_volume_claim: ClaimVolume | None = None
    """A claim of the namespace."""
    ephemeral: EphemeralVolume | None = None
    """A claim that goes with the pod."""
    projected: ProjectedVolume | None = None
    """Several sources in one."""
