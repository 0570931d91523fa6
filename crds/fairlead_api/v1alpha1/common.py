"""Parts of every resource: the base model, object metadata, conditions, durations, references.

Reading is tolerant (unknown members are dropped, so that an older reader survives a newer resource);
`fairlead_api.load` forbids unknown members for manifests that people write. Pure: no I/O.
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

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.lists import MAP_TYPE
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.rules import VALIDATIONS, ValidationRule, enforce

DURATION_PATTERN: Final = r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"
_DURATION_PARTS: Final = re.compile(r"([0-9]+)(ms|h|m|s)")
_MILLISECONDS: Final = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


class Duration(str):
    """A length of time as written in manifests: `500ms`, `30s`, `10m`, `1h30m`; the form of Gateway API's GEP-2257.

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
        """Any text: the field's rule refuses what is malformed, with the sentence that a cluster gives."""
        return core_schema.no_info_after_validator_function(
            lambda text: str.__new__(cls, text), core_schema.str_schema(max_length=24)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "maxLength": 24}


def duration_rule(least: str, example: str, most: str = "24h") -> ValidationRule:
    """The rule of a duration field: well-formed, and from `least` to `most`."""
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
    """Base of every object in a resource: camelCase on the wire, snake_case in Python, docstrings as descriptions."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,  # most processes validate two kinds, and validators of parts are made for nothing
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
        validate_default=False,
    )

    guards: ClassVar[tuple[ValidationRule, ...]] = ()
    """Rules that hold between the fields of this object."""
    moved: ClassVar[tuple[MovedField, ...]] = ()
    """Fields of earlier manifests, each refused with its new place."""
    removable: ClassVar[frozenset[str]] = frozenset()
    """Wire names of members whose null says something: it takes away what the operator would set (`nullable`)."""
    atomic: ClassVar[bool] = False
    """Whether several writers replace it as a whole instead of member by member (`x-kubernetes-map-type`)."""

    @model_validator(mode="before")
    @classmethod
    def _absent_if_null(cls, value: Any) -> Any:
        """An API server prunes nulls of what is not nullable; so does a reader of manifests."""
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
        if cls.guards or cls.moved or cls.atomic or cls.removable:
            own = handler.resolve_ref_schema(described)
            if cls.guards:
                own[VALIDATIONS] = [rule.as_validation() for rule in cls.guards]
            if cls.atomic:
                own[MAP_TYPE] = "atomic"
            own["properties"] = {**own.get("properties", {}), **{field.name: field.schema() for field in cls.moved}}
            for name in cls.removable:
                own["properties"][name]["nullable"] = True
        return described

    def to_wire(self) -> dict[str, Any]:
        """As JSON-ready members with their wire names; absent and defaulted-to-absent members left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _wire_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[AwareDatetime, PlainSerializer(_wire_time, return_type=str, when_used="json")]
"""A moment with a time zone; on the wire RFC 3339 in UTC with whole seconds, as `metav1.Time`."""


@dataclass(frozen=True)
class _OneRefusal:
    """Tells what is wanted instead of why each member of a union refused."""

    text: str
    """Example of a text that is taken."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), "quantity", custom_error_message=f"must be a whole number, or text such as {self.text}"
        )


QUANTITY_PATTERN: Final = r"^([0-9]+\.?[0-9]*|\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|n|u|[eE][+-]?[0-9]+)?$"
"""Kubernetes' `resource.Quantity` from zero up, as text."""


class _QuantityForm:
    """Bounds numbers, and gives texts their form, which is a pattern in the CRD: of a member that may be a number an
    API server takes the costs of a rule for too high.
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
"""Power of ten above which quantities are all the same here: an API server refuses or cuts them."""
_BINARY_UNITS: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def amount(quantity: int | str) -> Decimal:
    """Number that a quantity stands for, in units of its resource: `64Mi` is 67108864, `100m` is 0.1.

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
    """The standard object's metadata, as far as Fairlead reads it."""

    name: str = Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    """Unique within the namespace."""
    namespace: str = Field(default="", max_length=63)
    """Empty for cluster-scoped kinds."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    uid: str = ""
    """Empty off a cluster."""
    resource_version: str = ""
    generation: int = 0
    """Counts changes of the spec; 0 off a cluster."""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] = []
    generate_name: str = ""
    owner_references: list[dict[str, Any]] = []
    managed_fields: list[dict[str, Any]] = []
    self_link: str = ""


class Condition(Model):
    """One observation about the resource, in the form of `metav1.Condition`."""

    type: str = Field(min_length=1, max_length=64)
    """Aspect that is observed, such as `Accepted` or `Ready`."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: str = Field(min_length=1, max_length=64)
    """One CamelCase word for why: what a person does next. The words are listed in the documentation."""
    message: str = Field(default="", max_length=4096)
    """Cause in a word where it says more than the reason, a sentence, and advice where something has to be done."""
    observed_generation: int = 0
    """`metadata.generation` that this was observed for."""
    last_transition_time: Time
    """When `status` last changed."""


class Resource(Model):
    """Base of the kinds."""

    kind_name: ClassVar[str]
    plural: ClassVar[str]
    short_name: ClassVar[str]
    namespaced: ClassVar[bool] = True

    metadata: ObjectMeta

    @property
    def key(self) -> ServerKey:
        """Namespace and name."""
        return ServerKey(self.metadata.namespace, self.metadata.name)
