"""Settings of a process, from environment variables `FAIRLEAD_*`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import BeforeValidator, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from fairlead_api.bad_setting import BadSetting

ENV_PREFIX: Final = "FAIRLEAD_"
EXPECTED: Final = {"int_parsing": "a whole number", "float_parsing": "a number", "bool_parsing": "true or false"}
"""Description of the values that are expected, by pydantic's type of error."""


def _listed(given: object) -> object:
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given


CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""Texts, in a variable separated by commas; empty ones are left out."""


class EnvironmentSettings(BaseSettings):
    """Settings with a default each. Made directly it has the members that it is given; `from_env` reads variables."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_prefix_target="all",
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        enable_decoding=False,
    )

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The members given alone: variables are read by `from_env`, from the mapping that it is called with."""
        return (init_settings,)

    def replaced(self, **changes: Any) -> Self:
        """These settings with other values of some members. Raises pydantic.ValidationError."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | changes)

    @classmethod
    def variables(cls) -> frozenset[str]:
        """Names of the environment variables that are read."""
        return frozenset(f"{ENV_PREFIX}{field.alias or name}".upper() for name, field in cls.model_fields.items())

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ, **overrides: Any) -> Self:
        """From `FAIRLEAD_PORT`, …, of which blank ones count as none; `overrides` (of the command line) win, None is
        absent. Raises BadSetting.
        """
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls(**(_Variables(cls, environ)() | given))
        except ValidationError as error:
            raise BadSetting(_sentence(error, given)) from error


class _Variables(EnvSettingsSource):
    """The variables of a mapping, which need not be those of the process."""

    def __init__(self, settings: type[BaseSettings], environ: Mapping[str, str]) -> None:
        super().__init__(settings)
        self.env_vars = {name.lower(): text.strip() for name, text in environ.items() if text.strip()}


def _sentence(error: ValidationError, given: Mapping[str, object]) -> str:
    """The first error, as a sentence that names its variable."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    value = given.get(name, first["input"])
    where = f"{ENV_PREFIX}{name.upper()} is {value!r}"
    expected = EXPECTED.get(first["type"])
    if first["type"] == "literal_error":
        expected = str(first["ctx"]["expected"]).replace("'", "")
    if expected:
        return f"{where}; it takes {expected}"
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"
