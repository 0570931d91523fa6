"""Definition of a tool server: its settings, from environment variables and options, and its data folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mcp.server import MCPServer
from pydantic import BaseModel, ConfigDict, ValidationError

from fairlead_servers.sentences import sentence


class SettingError(ValueError):
    """An invalid setting. The message has the setting's name, and says what is expected."""


class ServerSettings(BaseModel):
    """Settings of one server; each field has a description and a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


S = TypeVar("S", bound=ServerSettings)


@dataclass(frozen=True)
class ToolServer(Generic[S]):
    """A tool server. `open` opens it on a data folder, and may raise SettingError."""

    settings: type[S]
    open: Callable[[Path, S], MCPServer[Any]]

    def make(self, folder: Path, name: str, environ: Mapping[str, str], options: Mapping[str, str]) -> MCPServer[Any]:
        """Open the server with settings from the environment and from the command line (`options`), which takes
        precedence.

        Raises SettingError.
        """
        return self.open(folder, read_settings(self.settings, name, environ, options))


def variable(server: str, field: str) -> str:
    """Environment variable of a setting: `FAIRLEAD_<server>_<field>`, upper case, dashes as underscores."""
    return f"FAIRLEAD_{server}_{field}".replace("-", "_").upper()


def read_settings(kind: type[S], server: str, environ: Mapping[str, str], options: Mapping[str, str]) -> S:
    """Read the settings of a server from the environment and from `options`, which take precedence. Empty variables are
    ignored. Raises SettingError."""
    fields = kind.model_fields
    for name in options:
        if name not in fields:
            valid_settings = f"its settings are {', '.join(sorted(fields))}" if fields else "the server has no settings"
            raise SettingError(f"{server} has no setting {name!r}; {valid_settings}")
    values = {name: environ[variable(server, name)] for name in fields if environ.get(variable(server, name))}
    try:
        return kind.model_validate(values | dict(options))
    except ValidationError as error:
        raise SettingError(sentence(f"the settings of {server}", error)) from error


def prepare_folder(server: str, name: str, folder: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Data folder of a server, which is created if it is missing: `folder`, else `FAIRLEAD_DATA`, else the folder
    `name` in the user's data folder (XDG_DATA_HOME). Raises SettingError if it is not writable.
    """
    folder = folder or _default(name, environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(
            f"the data folder {folder} of {server} cannot be created: {error.strerror}; "
            "choose another folder with --data"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingError(f"the data folder {folder} of {server} is read-only; choose another folder with --data")
    return folder.resolve()


def _default(name: str, environ: Mapping[str, str]) -> Path:
    if environ.get("FAIRLEAD_DATA"):
        return Path(environ["FAIRLEAD_DATA"])
    home = environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "fairlead" / name
