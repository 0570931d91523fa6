"""Typed access to the members of one entry of a client configuration, variables filled in. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead_api.client_files.interpolation import REFERENCE, UnsetVariable, interpolate
from fairlead_api.client_files.keys import Remark
from fairlead_api.client_files.variables import (
    DIALECTS,
    EDITOR_VARIABLES,
    AskedForValue,
    FileSurroundings,
    refuse_asked,
    suspicion,
)
from fairlead_api.v1alpha1.causes import Cause

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0", ""})
_KEPT_SECRET: Final = ("headers", "env", "apiKey")
"""Keys whose values are remarked on where they look like placeholders."""
_NAMED_ALONE: Final = frozenset({"bearer_token_env_var", "env_http_headers", "env_keys"})
"""Keys of client files that hold names of variables, so that there is no place for a default."""
_LEFT_TO_THE_PROGRAM: Final = "args"
"""Key in which a variable of the entry's own `env` is left for the program, which fills it in itself, as mcp-remote
does: its value may be a secret, and who may list processes may read arguments.
"""


class EntryProblem(ValueError):
    """An entry that cannot be served."""

    def __init__(self, field: str, message: str, cause: Cause = Cause.INVALID) -> None:
        super().__init__(message)
        self.field = field
        """Path within the entry, such as `env.TOKEN`; empty for the entry as a whole."""
        self.cause = cause


def read_bool(value: object) -> bool | None:
    """A truth value as people write it: also a number or a text such as `"true"`; None for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    text = value.strip().lower() if isinstance(value, str) else None
    return True if text in _TRUE else False if text in _FALSE else None


class EntryReader:
    """Members of an entry as texts, lists and objects of texts.

    Raises EntryProblem for members of another type, and for variables that are not set.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        environ: Mapping[str, str],
        around: FileSurroundings,
        dialect: str,
        written: Mapping[str, str],
    ) -> None:
        """`written`: key in the file of each key of `content` that is called otherwise there."""
        self._content = content
        self._written = written
        self._environ = environ
        self._around = around
        self._dialect = DIALECTS["gemini" if around.gemini or "httpUrl" in content else dialect]
        self.own: Mapping[str, str] = {}
        """Variables of the entry itself, which other values may name."""
        self.remarks: list[Remark] = []

    def text(self, field: str) -> str | None:
        value = self._content.get(field)
        return None if value is None else self._fill(field, value)

    def first(self, fields: Sequence[str]) -> tuple[str, str | None]:
        """The first of some keys that mean the same, with its value."""
        for field in fields:
            if value := self.text(field):
                return field, value
        return fields[0], None

    def path(self, field: str) -> str | None:
        """A text in which a leading `~/` is the home folder, as in a shell."""
        value, home = self.text(field), self._environ.get("HOME")
        return home + value[1:] if value is not None and home and (value == "~" or value.startswith("~/")) else value

    def texts(self, field: str) -> list[str]:
        value = self._content.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise EntryProblem(field, "must be a list of texts")
        return [self._fill(f"{field}[{index}]", item) for index, item in enumerate(value)]

    def mapping(self, field: str) -> dict[str, str]:
        """Names and texts; a name whose value is null is as if it were not there."""
        value = self._content.get(field)
        if value is None or value == []:  # PHP writes an empty object so
            return {}
        if not isinstance(value, Mapping):
            raise EntryProblem(field, "must be an object of names and texts")
        return {str(name): self._fill(f"{field}.{name}", item) for name, item in value.items() if item is not None}

    def passed_variables(self, field: str) -> dict[str, str]:
        """Variables of the environment that a list names, as texts or as objects with a `name`, but for unset ones."""
        listed = self._content.get(field)
        if listed is None:
            return {}
        if not isinstance(listed, list):
            raise EntryProblem(field, "must be a list of names of variables")
        names = [item.get("name") if isinstance(item, Mapping) else item for item in listed]
        return {name: self._environ[name] for name in names if isinstance(name, str) and name in self._environ}

    def _fill(self, field: str, value: object) -> str:
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, int | float):
            value = str(value)
        if field == "command" and isinstance(value, list):
            raise EntryProblem(field, "must be one program, as a text; its arguments go into args")
        if not isinstance(value, str):
            raise EntryProblem(field, "must be a text")
        member = field.partition(".")[0].partition("[")[0]
        try:
            for text, meaning in self._around.texts.items():
                value = value.replace(text, meaning)
            refuse_asked(value)
            value = self._dialect(value, self._environ)
            if member in _KEPT_SECRET and (remark := suspicion(value)):
                self.remarks.append(Remark(field, remark, stops=False))
            return interpolate(value, self._variables(value, member))
        except UnsetVariable as error:
            raise EntryProblem(field, self._missing(error, member), Cause.VARIABLE_NOT_SET) from error
        except AskedForValue as error:
            raise EntryProblem(field, str(error)) from error

    def _variables(self, value: str, member: str) -> Mapping[str, str]:
        """Variables of the environment, then those that an editor fills in, then the entry's own."""
        own = dict(self.own)
        if member == _LEFT_TO_THE_PROGRAM:
            own |= {match[2]: f"${{{match[2]}}}" for match in REFERENCE.finditer(value) if match[2] in own}
        return {**own, **self._around.variables, **self._environ}

    def _missing(self, error: UnsetVariable, member: str) -> str:
        if self._written.get(member) in _NAMED_ALONE:
            return error.lack
        editors = [name for name in error.names if name in EDITOR_VARIABLES]
        if not editors:
            return str(error)
        return f"names {editors[0]}, which the editor fills in and is not known for this file: write the path itself"
