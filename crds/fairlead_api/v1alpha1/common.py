"""Parts of every resource: the base model, object metadata, conditions, durations, references.

Parsing is tolerant: unknown members are dropped, so that an older reader can read a newer resource. For manifests that
people write, `fairlead_api.load` forbids unknown members. This module has no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fairlead_api.attribute_docstrings import attribute_docstrings
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.lists import MAP_TYPE
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.rules import VALIDATIONS, ValidationRule, enforce

DURATION_PATTERN: Final = r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"
_DURATION_PARTS: Final = re.compile(r"([0-9]+)(ms|h|m|s)")
_MILLISECONDS: Final = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


class Duration(str):
    """A duration in the syntax of Gateway API's GEP-2257: `500ms`, `30s`, `10m`, `1h30m`.

    Raises ValueError on any other text.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if re.fullmatch(DURATION_PATTERN, text) is None:
            raise ValueError(f"{text!r} is not a duration such as 500ms, 30s or 10m")
        return super().__new__(cls, text)

    @property
    def milliseconds(self) -> int:
        return sum(int(number) * _MILLISECONDS[unit] for number, unit in _DURATION_PARTS.findall(self))

    @property
    def seconds(self) -> float:
        return self.milliseconds / 1000

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept any text; the field's validation rule rejects invalid texts, with the same message as on a cluster."""
        return core_schema.no_info_after_validator_function(
            lambda text: str.__new__(cls, text), core_schema.str_schema(max_length=24)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "maxLength": 24}


def duration_rule(least: str, example: str, most: str = "24h") -> ValidationRule:
    """The validation rule of a duration field: the value must be well-formed, and from `least` to `most`."""
    floor, ceiling = Duration(least).milliseconds, Duration(most).milliseconds
    bottom = {0: "", 1: "more than 0s and "}.get(floor, f"at least {least} and ")

    def holds(text: str) -> bool:
        return re.fullmatch(DURATION_PATTERN, text) is not None and floor <= Duration(text).milliseconds <= ceiling

    return ValidationRule(
        cel=f"self.matches('{DURATION_PATTERN}') && duration(self) >= duration('{least}') && "
        f"duration(self) <= duration('{most}')",
        message=f"must be a duration of {bottom}at most {most}, such as {example}",
        holds=holds,
    )


class Model(BaseModel):
    """Base of every object in a resource: camelCase in JSON, snake_case in Python, docstrings as descriptions.

    Docstrings are read when a JSON schema is made. Pydantic would read them with each class, which takes a sixth of the
    start of `fairlead up`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,  # most processes need the validators of two kinds only
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        validate_default=False,
    )

    guards: ClassVar[tuple[ValidationRule, ...]] = ()
    """Validation rules between the fields of this object."""
    moved: ClassVar[tuple[MovedField, ...]] = ()
    """Fields of earlier releases, each rejected with its new name."""
    removable: ClassVar[frozenset[str]] = frozenset()
    """JSON names of nullable members. Null in such a member removes what the operator would set."""
    atomic: ClassVar[bool] = False
    """Whether writers replace the object as a whole instead of member by member (`x-kubernetes-map-type`)."""

    @model_validator(mode="before")
    @classmethod
    def _absent_if_null(cls, value: Any) -> Any:
        """Drop null members that are not nullable, as an API server does."""
        if isinstance(value, Mapping):
            return {key: member for key, member in value.items() if member is not None or key in cls.removable}
        return value

    @model_validator(mode="after")
    def _obey_guards(self) -> Self:
        enforce(type(self).guards, self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(schema)
        own = handler.resolve_ref_schema(described)
        for owner in cls.__mro__:
            if issubclass(owner, Model):
                for name, text in attribute_docstrings(owner).items():
                    if name in cls.model_fields:
                        own["properties"][cls.model_fields[name].alias].setdefault("description", text)
        if cls.guards or cls.moved or cls.atomic or cls.removable:
            if cls.guards:
                own[VALIDATIONS] = [rule.as_validation() for rule in cls.guards]
            if cls.atomic:
                own[MAP_TYPE] = "atomic"
            own["properties"] = {**own.get("properties", {}), **{field.name: field.schema() for field in cls.moved}}
            for name in cls.removable:
                own["properties"][name]["nullable"] = True
        return described

    def to_wire(self) -> dict[str, Any]:
        """The object as JSON-ready members with their JSON names, without absent members."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _wire_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[AwareDatetime, PlainSerializer(_wire_time, return_type=str, when_used="json")]
"""A moment with a time zone; in JSON, RFC 3339 in UTC with whole seconds, like `metav1.Time`."""


@dataclass(frozen=True)
class _OneRefusal:
    """Replaces pydantic's errors about a union, one per type of the union, by one sentence about the expected value."""

    text: str
    """Example of a valid text."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), "quantity", custom_error_message=f"must be a whole number, or text such as {self.text}"
        )


QUANTITY_PATTERN: Final = r"^([0-9]+\.?[0-9]*|\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|n|u|[eE][+-]?[0-9]+)?$"
"""Kubernetes' `resource.Quantity` without a sign."""


class _QuantityForm:
    """Validates quantities. Their syntax is a pattern in the CRD instead of a CEL rule: for a member that may be a
    number or a text, an API server estimates the cost of a rule as too high.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: int | str) -> int | str:
            good = value >= 0 if isinstance(value, int) else re.fullmatch(QUANTITY_PATTERN, value)
            if not good:
                raise PydanticCustomError(
                    "quantity",
                    "must be a quantity such as 2, 100m or 64Mi, with a unit out of m, k, M, G, T, Ki, Mi, Gi, Ti",
                )
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "minimum": 0, "pattern": QUANTITY_PATTERN}


Quantity = Annotated[int | str, _OneRefusal("100m or 64Mi"), _QuantityForm()]
"""A Kubernetes quantity, such as `2`, `100m` or `64Mi`."""
_QUANTITY_PARTS: Final = re.compile(r"([0-9.]+)(?:[eE]([+-]?[0-9]+)|([a-zA-Z]*))")
_DECIMAL_UNITS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MOST_POWER: Final = 99
"""Powers of ten are clamped to ±99: an API server rejects or rounds larger quantities anyway."""
_BINARY_UNITS: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def amount(quantity: int | str) -> Decimal:
    """Value of a quantity in units of its resource: `64Mi` is 67108864, `100m` is 0.1.

    Raises ValueError for text that is not a quantity.
    """
    parts = _QUANTITY_PARTS.fullmatch(str(quantity))
    if parts is None or re.fullmatch(QUANTITY_PATTERN, str(quantity)) is None:
        raise ValueError(f"{quantity!r} is not a quantity such as 2, 100m or 64Mi")
    number, exponent, unit = parts.groups()
    if unit in _BINARY_UNITS:
        return Decimal(number) * Decimal(1024) ** _BINARY_UNITS[unit]
    power = max(-_MOST_POWER, min(_MOST_POWER, float(exponent))) if exponent else _DECIMAL_UNITS[unit or ""]
    return Decimal(number).scaleb(int(power))


IntOrString = Annotated[int | str, _OneRefusal("mcp")]
"""Number or name of a port."""

ShortText = Annotated[str, Field(min_length=1, max_length=253)]
TierName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
SecretKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]


class ObjectMeta(Model):
    """The metadata of an object, as far as Fairlead reads it."""

    name: str = Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    """Name, unique within the namespace."""
    namespace: str = Field(default="", max_length=63)
    """Namespace; empty for cluster-scoped kinds."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    uid: str = ""
    """UID that the API server assigned; empty outside of a cluster."""
    resource_version: str = ""
    generation: int = 0
    """Number of the spec's current version; 0 outside of a cluster."""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] = []
    generate_name: str = ""
    owner_references: list[dict[str, Any]] = []
    managed_fields: list[dict[str, Any]] = []
    self_link: str = ""


class Condition(Model):
    """One observation about the resource (`metav1.Condition`)."""

    type: str = Field(min_length=1, max_length=64)
    """Aspect that is observed, such as `Accepted` or `Ready`."""
    status: Literal["True", "False", "Unknown"]
    """Whether the condition holds."""
    reason: str = Field(min_length=1, max_length=64)
    """Reason as one CamelCase word, which says what a person does next. The documentation lists all reasons."""
    message: str = Field(default="", max_length=4096)
    """Cause in one word if it differs from the reason, then a sentence, then advice if something has to be done."""
    observed_generation: int = 0
    """`metadata.generation` of the resource at the time of the observation."""
    last_transition_time: Time
    """When `status` last changed."""


class Resource(Model):
    """Base of McpServer, LatencyTier and ToolPolicy."""

    kind_name: ClassVar[str]
    plural: ClassVar[str]
    short_name: ClassVar[str]
    namespaced: ClassVar[bool] = True

    metadata: ObjectMeta

    @property
    def key(self) -> ServerKey:
        """Namespace and name."""
        return ServerKey(self.metadata.namespace, self.metadata.name)
