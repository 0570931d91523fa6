"""Container of a server: its package, environment variables and resources.

This module has no I/O.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Model, Quantity, SecretKey, ShortText
from fairlead_api.v1alpha1.names import ObjectName
from fairlead_api.v1alpha1.rules import ValidationRule

Argument = Annotated[str, Field(max_length=4096)]
EnvName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]

_FIELD_PATH: Final = (
    r"^(metadata\.(name|namespace|uid|(labels|annotations)(\[.+\])?)|spec\.(nodeName|serviceAccountName)|"
    r"status\.(hostIPs?|podIPs?))$"
)
_FIGURE: Final = r"^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i)$"
_PACKAGE_NAME: Final = r"^(@[A-Za-z0-9][A-Za-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._~-]*$"
_PACKAGE_VERSION: Final = r"^[0-9][0-9A-Za-z.+!_-]*$"

PACKAGE_NAME = ValidationRule(
    cel=f"self.matches(r'{_PACKAGE_NAME}')",
    message="must be the name of one package, such as mcp-server-time or @scope/name; the version goes into version",
    holds=lambda name: re.fullmatch(_PACKAGE_NAME, name) is not None,
)
PACKAGE_VERSION = ValidationRule(
    cel=f"self.matches(r'{_PACKAGE_VERSION}')",
    message="must be one exact version, such as 1.2.3: a tag or a range could change the server unnoticed",
    holds=lambda version: re.fullmatch(_PACKAGE_VERSION, version) is not None,
)


class Package(Model):
    """A published package with an MCP server that speaks stdio."""

    registry: Literal["npm", "pypi"]
    """Registry of the package: `npm` (runs with Node.js) or `pypi` (runs with uv, in its own environment)."""
    name: Annotated[str, Field(min_length=1, max_length=214), PACKAGE_NAME]
    """Name of the package."""
    version: Annotated[str, Field(min_length=1, max_length=64), PACKAGE_VERSION]
    """The exact version. It has no default, so that the server does not change by itself."""
    executable: str | None = Field(default=None, min_length=1, max_length=253, pattern=r"^[A-Za-z0-9._-]+$")
    """The program of the package to run. Absent: the program with the package's name."""
    args: list[Argument] = Field(default=[], max_length=128)
    """Arguments of the program, one per item, without a shell."""
    allow_build: bool = False
    """Whether installing may run code of the package and its dependencies: builds without a wheel (pypi), install
    scripts (npm). By default, only wheels are installed and no scripts run."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="self.registry == 'npm' || !self.name.startsWith('@')",
            message="a name with @scope exists on npm only: set registry: npm, or drop the scope",
            holds=lambda package: package.registry == "npm" or not package.name.startswith("@"),
            path=".name",
        ),
    )


class SecretKeySelector(Model):
    """One key of a Secret of the same namespace."""

    atomic: ClassVar[bool] = True

    name: ObjectName
    """Name of the Secret."""
    key: SecretKey
    """Key within the Secret's data."""
    optional: bool | None = None
    """Whether the server starts if the key is missing. Absent: no."""


class ConfigMapKeySelector(Model):
    """One key of a ConfigMap of the same namespace."""

    atomic: ClassVar[bool] = True

    name: ObjectName
    """Name of the ConfigMap."""
    key: SecretKey
    """Key within the ConfigMap's data."""
    optional: bool | None = None
    """Whether the server starts if the key is missing. Absent: no."""


class FieldSelector(Model):
    """A field of the pod, such as `metadata.namespace`."""

    atomic: ClassVar[bool] = True

    field_path: Annotated[str, Field(min_length=1, max_length=400, pattern=_FIELD_PATH)]
    """Path of the field."""
    api_version: ShortText | None = None
    """API version of the path. Absent: `v1`."""


class ResourceFieldSelector(Model):
    """A resource value of the container, such as `limits.memory`."""

    atomic: ClassVar[bool] = True

    resource: Annotated[str, Field(min_length=1, max_length=64, pattern=_FIGURE)]
    """Name of the value."""
    container_name: ShortText | None = None
    """Container that the value is taken from. Absent: the server's own."""
    divisor: Quantity | None = None
    """Unit that the value is divided by. Absent: 1."""


class EnvVarSource(Model):
    """Source of an environment variable's value: exactly one member is set."""

    secret_key_ref: SecretKeySelector | None = None
    """A key of a Secret."""
    config_map_key_ref: ConfigMapKeySelector | None = None
    """A key of a ConfigMap."""
    field_ref: FieldSelector | None = None
    """A field of the pod; on a cluster only."""
    resource_field_ref: ResourceFieldSelector | None = None
    """A resource value of the container; on a cluster only."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef), "
            "has(self.resourceFieldRef)].filter(x, x).size() == 1",
            message="valueFrom: set exactly one of secretKeyRef, configMapKeyRef, fieldRef, resourceFieldRef",
            holds=lambda source: len(source.to_wire()) == 1,
        ),
    )


class EnvVar(Model):
    """One environment variable."""

    name: EnvName
    """Name of the variable."""
    value: str | None = Field(default=None, max_length=32768)
    """Value of the variable. Absent, and without `valueFrom`: the empty string."""
    value_from: EnvVarSource | None = None
    """Source of the value, instead of `value`."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="!has(self.value) || !has(self.valueFrom)",
            message="env: set value or valueFrom, not both",
            holds=lambda variable: variable.value is None or variable.value_from is None,
        ),
    )


class EnvFromReference(Model):
    """All keys of a Secret or ConfigMap of the same namespace."""

    atomic: ClassVar[bool] = True

    name: ObjectName
    """Name of the object."""
    optional: bool | None = None
    """Whether the server starts if the object is missing. Absent: no."""


class EnvFromSource(Model):
    """All keys of a Secret or of a ConfigMap as environment variables."""

    prefix: str | None = Field(default=None, max_length=64)
    """Prefix of each variable's name. Absent: none."""
    secret_ref: EnvFromReference | None = None
    """The Secret."""
    config_map_ref: EnvFromReference | None = None
    """The ConfigMap."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="has(self.secretRef) != has(self.configMapRef)",
            message="envFrom: set exactly one of secretRef, configMapRef",
            holds=lambda source: (source.secret_ref is None) != (source.config_map_ref is None),
        ),
    )


class ResourceRequirements(Model):
    """Resources of the server's container, as in core/v1."""

    requests: dict[str, Quantity] | None = Field(default=None, max_length=16)
    """Reserved amounts, such as `cpu: 50m`, `memory: 64Mi`; a fraction is text: `500m` or `"0.5"`. Absent: the
    namespace's defaults."""
    limits: dict[str, Quantity] | None = Field(default=None, max_length=16)
    """Largest amounts. Absent: the namespace's defaults."""
