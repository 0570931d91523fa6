"""Typed access to the members of one entry of a client configuration, with variables resolved. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead_api.client_files.interpolation import REFERENCE, UnsetVariable, interpolate
from fairlead_api.client_files.keys import OWN, Remark
from fairlead_api.client_files.variables import (
    DIALECTS,
    EDITOR_VARIABLES,
    AskedForValue,
    FileSurroundings,
    placeholder_remark,
    refuse_editor_inputs,
)
from fairlead_api.v1alpha1.causes import Cause

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0", ""})
_CHECKED_FOR_PLACEHOLDERS: Final = ("headers", "env", "apiKey", "oauth", "auth", OWN)
"""Keys whose values are checked for placeholders."""
_KEYS_OF_VARIABLE_NAMES: Final = frozenset({"api_key_env", "bearer_token_env_var", "env_http_headers", "env_keys"})
"""Keys of client files whose values are names of variables. Such a value cannot contain a default."""
_RESOLVED_BY_PROGRAM: Final = "args"
"""Key in whose values variables of the entry's own `env` are not resolved. The program, such as mcp-remote, resolves
these variables itself: their values may be secret, and every user who can list processes can read a process's
arguments.
"""


class EntryProblem(ValueError):
    """An entry that cannot be served."""

    def __init__(self, field: str, message: str, cause: Cause = Cause.INVALID) -> None:
        super().__init__(message)
        self.field = field
        """Path within the entry, such as `env.TOKEN`; empty for the entry as a whole."""
        self.cause = cause


def read_bool(value: object) -> bool | None:
    """Boolean for a value that is a boolean, 0, 1, or a string such as `"true"`; None for any other value."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    text = value.strip().lower() if isinstance(value, str) else None
    return True if text in _TRUE else False if text in _FALSE else None


class EntryReader:
    """Reads members of an entry as strings, lists of strings and objects of strings.

    Raises EntryProblem for members of another type, and for unset variables.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        environ: Mapping[str, str],
        around: FileSurroundings,
        dialect: str,
        original_keys: Mapping[str, str],
    ) -> None:
        """`original_keys`: original key of each key of `content` that has another name in the file, and original path
        of each path, such as `headers.Authorization`, whose value has another key than the rest of its object.
        """
        self._content = content
        self._original_keys = original_keys
        self._environ = environ
        self._around = around
        self._dialect = DIALECTS["gemini" if around.gemini or "httpUrl" in content else dialect]
        self.own: Mapping[str, str] = {}
        """Variables from the entry's own `env`, `envFile` and `env_vars`. The entry's other values may refer to
        them.
        """
        self.remarks: list[Remark] = []

    def text(self, field: str) -> str | None:
        value = self._content.get(field)
        return None if value is None else self._fill(field, value)

    def first(self, fields: Sequence[str]) -> tuple[str, str | None]:
        """The first of several synonymous keys that has a value, with its value. If no key has a value: the first key,
        and None."""
        for field in fields:
            if value := self.text(field):
                return field, value
        return fields[0], None

    def path(self, field: str) -> str | None:
        """A path, in which a leading `~/` is replaced by the home folder, as in a shell."""
        value = self.text(field)
        return None if value is None else self.in_home(value)

    def in_home(self, path: str) -> str:
        """A path, in which a leading `~/` is replaced by the home folder."""
        home = self._environ.get("HOME")
        return home + path[1:] if home and (path == "~" or path.startswith("~/")) else path

    def value(self, field: str, value: object) -> str:
        """A string at any path within the entry, such as `fairlead.auth.bearer.secret`, with variables resolved."""
        return self._fill(field, value)

    def texts(self, field: str) -> list[str]:
        value = self._content.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise EntryProblem(field, "must be a list of strings")
        return [self._fill(f"{field}[{index}]", item) for index, item in enumerate(value)]

    def mapping(self, field: str) -> dict[str, str]:
        """An object of names and strings; members whose value is null are left out."""
        value = self._content.get(field)
        if value is None or value == []:  # PHP writes empty objects like this
            return {}
        if not isinstance(value, Mapping):
            raise EntryProblem(field, "must be an object with strings as values")
        return {str(name): self._fill(f"{field}.{name}", item) for name, item in value.items() if item is not None}

    def passed_variables(self, field: str) -> dict[str, str]:
        """Environment variables that a list names, by strings or by objects with a `name`; unset variables are left
        out."""
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
            raise EntryProblem(field, "must be one program, given as a string; its arguments go into args")
        if not isinstance(value, str):
            raise EntryProblem(field, "must be a string")
        member = field.partition(".")[0].partition("[")[0]
        try:
            for text, meaning in self._around.texts.items():
                value = value.replace(text, meaning)
            refuse_editor_inputs(value)
            value = self._dialect(value, self._environ)
            if member in _CHECKED_FOR_PLACEHOLDERS and (remark := placeholder_remark(value)):
                self.remarks.append(Remark(field, remark, stops=False))
            return interpolate(value, self._variables(value, member))
        except UnsetVariable as error:
            raise EntryProblem(field, self._missing(error, field, member), Cause.VARIABLE_NOT_SET) from error
        except AskedForValue as error:
            raise EntryProblem(field, str(error)) from error

    def _variables(self, value: str, member: str) -> Mapping[str, str]:
        """Variables that a value may refer to. The process's environment wins over editor variables, and both win over
        the entry's own `env`.
        """
        variables = dict(self.own)
        if member == _RESOLVED_BY_PROGRAM:
            variables |= {match[2]: f"${{{match[2]}}}" for match in REFERENCE.finditer(value) if match[2] in variables}
        return {**variables, **self._around.variables, **self._environ}

    def _missing(self, error: UnsetVariable, field: str, member: str) -> str:
        original = self._original_keys.get(field) or self._original_keys.get(member, "")
        if original.partition(".")[0] in _KEYS_OF_VARIABLE_NAMES:
            return error.lack
        editors = [name for name in error.names if name in EDITOR_VARIABLES]
        if not editors:
            return str(error)
        return f"uses {editors[0]}, which only an editor can resolve: write the path instead"
