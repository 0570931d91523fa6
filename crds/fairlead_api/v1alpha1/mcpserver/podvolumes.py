"""Volumes of a pod template's overlay. Files of the node and API server tokens are not available.

This module has no I/O.
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
    """Mapping of one key to a file."""

    key: ShortText
    """Key of the ConfigMap or Secret."""
    path: RelativePath
    """Path of the file within the volume."""
    mode: FileMode | None = None
    """Permissions of the file."""


class EmptyDirVolume(Model):
    """An empty folder that lives as long as the pod."""

    medium: Literal["", "Memory", "HugePages"] | None = None
    """`Memory` keeps the files in memory."""
    size_limit: Quantity | None = None
    """Largest size of the folder."""


class ConfigMapVolume(Model):
    """Keys of a ConfigMap as files."""

    name: AnyName | None = None
    """Name of the ConfigMap."""
    items: list[KeyToPath] | None = Field(default=None, max_length=128)
    """Keys to include. Absent: all."""
    default_mode: FileMode | None = None
    """Permissions of the files."""
    optional: bool | None = None
    """Whether the ConfigMap may be missing."""


class SecretVolume(Model):
    """Keys of a Secret, labelled `fairlead.dev/credential: "true"`, as files."""

    secret_name: AnyName | None = None
    """Name of the Secret."""
    items: list[KeyToPath] | None = Field(default=None, max_length=128)
    """Keys to include. Absent: all."""
    default_mode: FileMode | None = None
    """Permissions of the files."""
    optional: bool | None = None
    """Whether the Secret may be missing."""


class DownwardFile(Model):
    """A field or resource value of the pod as a file."""

    path: RelativePath
    """Path of the file within the volume."""
    field_ref: FieldSelector | None = None
    """Field of the pod."""
    resource_field_ref: ResourceFieldSelector | None = None
    """Resource request or limit of a container."""
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
    """Name of the claim."""
    read_only: bool | None = None
    """Whether the volume is mounted read-only. Absent: no."""


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
    """API group of the object; absent for a claim."""
    kind: ShortText
    """Kind of the object."""
    name: ShortText
    """Name of the object."""


class ClaimResources(Model):
    """Size of a claim."""

    requests: dict[str, Quantity] | None = Field(default=None, max_length=1)
    """`storage` is the requested size."""
    limits: dict[str, Quantity] | None = Field(default=None, max_length=1)
    """`storage` is the largest size that the claim may grow to."""


class ClaimSpec(Model):
    """Requirements on the storage."""

    access_modes: list[ShortText] | None = Field(default=None, max_length=8)
    """Access modes, such as `ReadWriteOnce`."""
    resources: ClaimResources | None = None
    """`requests.storage` is the requested size."""
    storage_class_name: AnyName | None = None
    """StorageClass. Absent: the cluster's default."""
    volume_mode: Literal["Filesystem"] | None = None
    """`Filesystem` is the only mode."""
    volume_name: AnyName | None = None
    """Name of an existing PersistentVolume."""
    selector: LabelSelection | None = None
    """Labels that the PersistentVolume must have."""
    data_source: DataSource | None = None
    """Object that the volume is filled from."""


class ClaimTemplate(Model):
    """A claim that is created with the pod."""

    metadata: ClaimMetadata | None = None
    """Labels and annotations."""
    spec: ClaimSpec
    """Requirements on the storage."""


class EphemeralVolume(Model):
    """A claim that is created and deleted with the pod."""

    volume_claim_template: ClaimTemplate
    """Template of the claim."""


class ProjectedConfigMap(Model):
    """Keys of a ConfigMap."""

    name: AnyName | None = None
    """Name of the ConfigMap."""
    items: list[KeyToPath] | None = Field(default=None, max_length=128)
    """Keys to include. Absent: all."""
    optional: bool | None = None
    """Whether the object may be missing."""


class ProjectedSecret(ProjectedConfigMap):
    """Keys of a Secret that is labelled `fairlead.dev/credential: "true"`."""


class ProjectedDownward(Model):
    """Fields of the pod."""

    items: list[DownwardFile] | None = Field(default=None, max_length=64)
    """The files."""


class TrustBundle(Model):
    """Certificates of a ClusterTrustBundle."""

    name: AnyName | None = None
    """Name of a single bundle."""
    signer_name: AnyName | None = None
    """Signer, all of whose bundles are included."""
    label_selector: LabelSelection | None = None
    """Labels that select among the signer's bundles."""
    optional: bool | None = None
    """Whether the bundle may be missing."""
    path: RelativePath
    """Path of the file within the volume."""


class ProjectedSource(Model):
    """One source of a projected volume. API server tokens are not available."""

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
    """A volume: its name and one source. `null` removes a generated source."""

    removable: ClassVar[frozenset[str]] = frozenset({"emptyDir"})

    name: DnsLabel
    """Name of the volume."""
    empty_dir: EmptyDirVolume | None = None
    """An empty folder; `null` if a generated volume gets another source."""
    config_map: ConfigMapVolume | None = None
    """Keys of a ConfigMap."""
    secret: SecretVolume | None = None
    """Keys of a Secret."""
    downward_api: DownwardVolume | None = Field(default=None, alias="downwardAPI")
    """Fields of the pod."""
    persistent_volume_claim: ClaimVolume | None = None
    """A claim of the namespace."""
    ephemeral: EphemeralVolume | None = None
    """A claim that is created and deleted with the pod."""
    projected: ProjectedVolume | None = None
    """Several sources in one volume."""
