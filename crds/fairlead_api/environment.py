"""Settings of a process, read from environment variables `FAIRLEAD_*`."""

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
"""Words for true and false, in lower case."""

CommaSeparated = tuple[str, ...]
"""Strings that one variable lists, separated by commas; empty strings are ignored."""


def prefixed(prefix: str) -> Callable[[str], str]:
    """Function for `rename` of a group's class, which adds `prefix` to its settings' names: member `timeout` of the
    group with prefix `redis_` is the setting `redis_timeout`.
    """
    return lambda member: f"{prefix}{member}"


class EnvironmentSettings(Struct, frozen=True, kw_only=True):
    """A group of settings, each with a default, and of nested groups. A setting has the name of its member, unless the
    class argument `rename` changes the name. The constructor takes members with values of their types; `of` takes
    values by setting name, over all groups; `from_env` reads environment variables. All raise BadSetting for a value
    that has the wrong type or is out of range.
    """

    def __post_init__(self) -> None:
        for field in _fields(type(self)):
            given = getattr(self, field.member)
            read = _read(field, given)
            if read is not given:
                msgspec.structs.force_setattr(self, field.member, read)

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Settings from values by setting name, over all groups. Raises BadSetting, and TypeError for an unknown
        name.
        """
        if unknown := values.keys() - {field.name for field in _all_fields(cls)}:
            raise TypeError(f"{cls.__name__} has no setting {', '.join(sorted(unknown))}")
        return _make(cls, values)

    def replace(self, **changes: Any) -> Self:
        """A copy with some values changed, by setting name. Raises BadSetting, and TypeError for an unknown name."""
        return type(self).of(**self.values() | changes)

    def values(self) -> dict[str, Any]:
        """Values by setting name, over all groups."""
        values = {field.name: getattr(self, field.member) for field in _fields(type(self))}
        for member in _groups(type(self)):
            group: EnvironmentSettings = getattr(self, member)
            values |= group.values()
        return values

    @classmethod
    def variables(cls) -> frozenset[str]:
        """Names of the environment variables of all settings."""
        return frozenset(field.variable for field in _all_fields(cls))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ, **overrides: Any) -> Self:
        """Settings from environment variables such as `FAIRLEAD_PORT`; blank variables count as unset. `overrides`,
        from the command line, win over variables; None means not given. Raises BadSetting.
        """
        texts = {name.upper(): text.strip() for name, text in environ.items()}
        given = {field.name: text for field in _all_fields(cls) if (text := texts.get(field.variable))}
        return cls.of(**given | {name: value for name, value in overrides.items() if value is not None})


SettingsT = TypeVar("SettingsT", bound=EnvironmentSettings)


class _Field(NamedTuple):
    """A setting and its valid values."""

    member: str
    name: str
    kind: Any
    """Annotated type."""
    inner: Type
    """Type without `| None`; for a list, the type of its items."""
    many: bool
    """Whether the setting is a list."""
    rule: TextRule | None
    """Rule for the setting's strings; None if there is no rule."""

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return f"{ENV_PREFIX}{self.name}".upper()


@cache
def _fields(settings: type[EnvironmentSettings]) -> tuple[_Field, ...]:
    """Settings of a group, without those of nested groups."""
    members = msgspec.structs.fields(settings)
    return tuple(_field(each.name, each.encode_name, each.type) for each in members if not _is_group(each.type))


@cache
def _groups(settings: type[EnvironmentSettings]) -> Mapping[str, type[EnvironmentSettings]]:
    """Nested groups of a group, by member name."""
    return {each.name: each.type for each in msgspec.structs.fields(settings) if _is_group(each.type)}


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, EnvironmentSettings)


def _all_fields(settings: type[EnvironmentSettings]) -> Iterator[_Field]:
    yield from _fields(settings)
    for group in _groups(settings).values():
        yield from _all_fields(group)


def _make(settings: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
    """Make the group and its nested groups, each from the `values` that belong to it. Raises BadSetting."""
    members = {field.member: values[field.name] for field in _fields(settings) if field.name in values}
    groups = {member: _make(group, values) for member, group in _groups(settings).items()}
    return settings(**members, **groups)


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
    """The value of a setting, converted from a string if necessary. Raises BadSetting."""
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
    if field.rule is not None:
        _check(field, value, field.rule.check)
    return value


def _check(field: _Field, value: Any, check: Callable[[str], Any] | None) -> None:
    """Check each string of a setting. Raises BadSetting."""
    for text in value if field.many else (value,):
        if not text:
            continue
        if text.endswith("\n"):  # Python's `$` matches before a line end at the end of a string, RE2's does not
            raise _bad(field, text)
        try:
            if check is not None:
                check(text)
        except ValueError as error:
            raise _bad(field, text) from error


def _first_bad(field: _Field, read: object, given: object) -> object:
    """The first invalid item of a list, else the whole value."""
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
    """The error about a value, which it quotes unless it is a secret."""
    secret = field.rule is not None and field.rule.secret
    problem = "has an invalid value" if secret else f"is {value!r}"
    return BadSetting(f"{field.variable} {problem}; it takes {_expectation(field)}")


def _convert(kind: type, given: object) -> object:
    """Convert a string to a path; msgspec calls this for types that it does not support."""
    if kind is Path and isinstance(given, str | Path):
        return Path(given)
    raise TypeError(f"cannot convert {given!r} to {kind.__name__}")


def _expectation(field: _Field) -> str:
    """Description of the valid values, as part of a sentence."""
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
    return "strings, separated by commas" if field.many else "a string"
