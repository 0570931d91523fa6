"""Settings of a process, from environment variables `FAIRLEAD_*`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.inspect import (
    BoolType,
    CustomType,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from fairlead_api.bad_setting import BadSetting
from fairlead_api.setting_types import RULE, TextRule

ENV_PREFIX: Final = "FAIRLEAD_"
TRUTH: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
"""Words for true and false, in any case."""

CommaSeparated = tuple[str, ...]
"""Texts, in a variable separated by commas; empty ones are left out."""


def prefixed(prefix: str) -> Callable[[str], str]:
    """Names of settings for the members of a group, for `rename` of its class: `timeout` of `redis_` is
    `redis_timeout`.
    """
    return lambda member: f"{prefix}{member}"


class EnvironmentSettings(Struct, frozen=True, kw_only=True):
    """A group of settings with a default each, and of smaller groups. The name of a setting is its member's, or what
    the class renames that to. Made directly it has the members that it is given, as their types say; `of` takes values
    by the names of settings, and `from_env` reads variables. Raises BadSetting for a value of another type, or beyond
    its bounds.
    """

    def __post_init__(self) -> None:
        for field in _fields(type(self)):
            given = getattr(self, field.member)
            read = _read(field, given)
            if read is not given:
                msgspec.structs.force_setattr(self, field.member, read)

    @classmethod
    def of(cls, **values: Any) -> Self:
        """From values by the names of settings, of all groups. Raises BadSetting, and TypeError for another name."""
        if unknown := values.keys() - {field.name for field in _all_fields(cls)}:
            raise TypeError(f"{cls.__name__} has no setting {', '.join(sorted(unknown))}")
        return _make(cls, values)

    def replace(self, **changes: Any) -> Self:
        """These settings with other values of some, by their names. Raises BadSetting, and TypeError for another
        name.
        """
        return type(self).of(**self.values() | changes)

    def values(self) -> dict[str, Any]:
        """Values by the names of settings, of all groups."""
        own = {field.name: getattr(self, field.member) for field in _fields(type(self))}
        for member in _groups(type(self)):
            group: EnvironmentSettings = getattr(self, member)
            own |= group.values()
        return own

    @classmethod
    def variables(cls) -> frozenset[str]:
        """Names of the environment variables that are read."""
        return frozenset(field.variable for field in _all_fields(cls))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ, **overrides: Any) -> Self:
        """From `FAIRLEAD_PORT`, …, of which blank ones count as none; `overrides` (of the command line) win, None is
        absent. Raises BadSetting.
        """
        texts = {name.upper(): text.strip() for name, text in environ.items()}
        given = {field.name: text for field in _all_fields(cls) if (text := texts.get(field.variable))}
        return cls.of(**given | {name: value for name, value in overrides.items() if value is not None})


SettingsT = TypeVar("SettingsT", bound=EnvironmentSettings)


class _Field(NamedTuple):
    """A setting, and what it takes."""

    member: str
    name: str
    kind: Any
    """Its type, as it is written."""
    inner: Type
    """Its type without `| None`, for a list that of its items."""
    many: bool
    """Whether it is a list."""
    rule: TextRule | None
    """Requirement for its texts."""

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return f"{ENV_PREFIX}{self.name}".upper()


@cache
def _fields(settings: type[EnvironmentSettings]) -> tuple[_Field, ...]:
    """Settings of a group without those of its smaller groups."""
    members = msgspec.structs.fields(settings)
    return tuple(_field(each.name, each.encode_name, each.type) for each in members if not _is_group(each.type))


@cache
def _groups(settings: type[EnvironmentSettings]) -> Mapping[str, type[EnvironmentSettings]]:
    """Smaller groups of a group, by the member that has them."""
    return {each.name: each.type for each in msgspec.structs.fields(settings) if _is_group(each.type)}


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, EnvironmentSettings)


def _all_fields(settings: type[EnvironmentSettings]) -> Iterator[_Field]:
    yield from _fields(settings)
    for group in _groups(settings).values():
        yield from _all_fields(group)


def _make(settings: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
    """The group with those of the values that are its own, or of its smaller groups. Raises BadSetting."""
    own = {field.member: values[field.name] for field in _fields(settings) if field.name in values}
    groups = {member: _make(group, values) for member, group in _groups(settings).items()}
    return settings(**own, **groups)


def _field(member: str, name: str, kind: Any) -> _Field:
    info = type_info(kind)
    inner = info.types[0] if isinstance(info, UnionType) else info
    many = isinstance(inner, VarTupleType)
    if isinstance(inner, VarTupleType):
        inner = inner.item_type
    rule = None
    if isinstance(inner, Metadata):
        rule = (inner.extra or {}).get(RULE)
        inner = inner.type
    return _Field(member, name, kind, inner, many, rule)


def _read(field: _Field, given: object) -> object:
    """The value of a setting, from a text or a value. Raises BadSetting."""
    read, strict = given, True
    if isinstance(given, str):
        if field.many:
            read = tuple(part.strip() for part in given.split(",") if part.strip())
        elif isinstance(field.inner, BoolType):
            read = TRUTH.get(given.lower(), given)
        elif isinstance(field.inner, LiteralType):
            read = next((each for each in field.inner.values if str(each).lower() == given.lower()), given)
        strict = not isinstance(field.inner, IntType | FloatType)
    try:
        value = msgspec.convert(read, field.kind, strict=strict, dec_hook=_convert)
    except msgspec.ValidationError as error:
        raise _bad(field, _first_bad(field, read, given)) from error
    if field.rule is not None and field.rule.check is not None:
        _check(field, value, field.rule.check)
    return value


def _check(field: _Field, value: Any, check: Callable[[str], Any]) -> None:
    """Raises BadSetting."""
    for text in value if field.many else (value,):
        try:
            if text:
                check(text)
        except ValueError as error:
            raise _bad(field, text) from error


def _first_bad(field: _Field, read: object, given: object) -> object:
    """The item of a list that is not taken, else the whole value."""
    if not field.many or not isinstance(read, tuple):
        return given
    (kind, _) = get_args(field.kind)
    for item in read:
        try:
            msgspec.convert(item, kind)
        except msgspec.ValidationError:
            return item
    return given


def _bad(field: _Field, value: object) -> BadSetting:
    """The error about a value; secrets are left out."""
    secret = field.rule is not None and field.rule.secret
    words = "has a value that cannot be used" if secret else f"is {value!r}"
    return BadSetting(f"{field.variable} {words}; it takes {_expectation(field)}")


def _convert(kind: type, given: object) -> object:
    """A path of a text; msgspec asks for what it does not know."""
    if kind is Path and isinstance(given, str | Path):
        return Path(given)
    raise TypeError(f"no {kind.__name__} is made of {given!r}")


def _expectation(field: _Field) -> str:
    """Values that a setting takes, as part of a sentence."""
    if field.rule is not None:
        return field.rule.expected
    match field.inner:
        case IntType() | FloatType() as inner:
            bounds = {"above": inner.gt, "at least": inner.ge, "below": inner.lt, "at most": inner.le}
            limits = [f"{words} {bound:,}" for words, bound in bounds.items() if bound is not None]
            return ", ".join(["a whole number" if isinstance(inner, IntType) else "a number", *limits])
        case BoolType():
            return "true or false"
        case LiteralType() as inner:
            return " or ".join(map(str, inner.values))
        case CustomType():
            return "a path"
    return "texts, separated by commas" if field.many else "a text"
