"""Settings of a process, from environment variables `FAIRLEAD_*`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import Struct
from msgspec.inspect import BoolType, CustomType, FloatType, IntType, LiteralType, Type, UnionType, type_info

from fairlead_api.bad_setting import BadSetting

ENV_PREFIX: Final = "FAIRLEAD_"
TRUTH: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
"""Words for true and false, in any case."""

CommaSeparated = tuple[str, ...]
"""Texts, in a variable separated by commas; empty ones are left out."""


class BadMember(ValueError):
    """A value that a setting does not take; the message says what it takes."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"{ENV_PREFIX}{name.upper()} is {value!r}; it takes {expected}")


class EnvironmentSettings(Struct, frozen=True, kw_only=True):
    """Settings with a default each. Made directly it has the members that it is given, as their types say; `from_env`
    reads variables. Raises BadMember for a value of another type, or beyond its bounds.
    """

    def __post_init__(self) -> None:
        for field in _fields(type(self)):
            given = getattr(self, field.name)
            read = _read(field, given)
            if read is not given:
                msgspec.structs.force_setattr(self, field.name, read)

    def replaced(self, **changes: Any) -> Self:
        """These settings with other values of some members. Raises BadMember."""
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def variables(cls) -> frozenset[str]:
        """Names of the environment variables that are read."""
        return frozenset(f"{ENV_PREFIX}{field.name}".upper() for field in _fields(cls))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ, **overrides: Any) -> Self:
        """From `FAIRLEAD_PORT`, …, of which blank ones count as none; `overrides` (of the command line) win, None is
        absent. Raises BadSetting.
        """
        texts = {name.upper(): text.strip() for name, text in environ.items()}
        named = {field.name: texts.get(f"{ENV_PREFIX}{field.name}".upper()) for field in _fields(cls)}
        given = {name: text for name, text in named.items() if text}
        try:
            return cls(**given | {name: value for name, value in overrides.items() if value is not None})
        except BadMember as error:
            raise BadSetting(str(error)) from error


class _Field(NamedTuple):
    """A setting, and what it takes."""

    name: str
    kind: Any
    """Its type, as it is written."""
    inner: Type
    """Its type without `| None`."""


@cache
def _fields(settings: type[EnvironmentSettings]) -> tuple[_Field, ...]:
    return tuple(_Field(one.name, one.type, _inner(type_info(one.type))) for one in msgspec.structs.fields(settings))


def _inner(info: Type) -> Type:
    return info.types[0] if isinstance(info, UnionType) else info


def _read(field: _Field, given: object) -> object:
    """The value of a setting, from a text or a value. Raises BadMember."""
    read, strict = given, True
    if isinstance(given, str):
        if field.kind == CommaSeparated:
            return tuple(part.strip() for part in given.split(",") if part.strip())
        if isinstance(field.inner, BoolType):
            read = TRUTH.get(given.lower(), given)
        strict = not isinstance(field.inner, IntType | FloatType)
    try:
        return msgspec.convert(read, field.kind, strict=strict, dec_hook=_made)
    except msgspec.ValidationError as error:
        raise BadMember(field.name, given, _expected(field.inner)) from error


def _made(kind: type, given: object) -> object:
    """A path of a text; msgspec asks for what it does not know."""
    if kind is Path and isinstance(given, str | Path):
        return Path(given)
    raise TypeError(f"no {kind.__name__} is made of {given!r}")


def _expected(inner: Type) -> str:
    """Values that a setting takes, as part of a sentence."""
    match inner:
        case IntType() | FloatType():
            bounds = {"above": inner.gt, "at least": inner.ge, "below": inner.lt, "at most": inner.le}
            said = [f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None]
            return ", ".join(["a whole number" if isinstance(inner, IntType) else "a number", *said])
        case BoolType():
            return "true or false"
        case LiteralType():
            return " or ".join(map(str, inner.values))
        case CustomType():
            return "a path"
        case _:
            return "a text" if inner == type_info(str) else "texts, separated by commas"
