"""Variables in the values of client configurations, in each client's syntax. No I/O: the environment is a parameter.

Each syntax is converted to `${NAME}`, which `interpolation` resolves. Sources: the pages of VS Code, Cursor, Gemini
CLI, opencode, Continue and Claude Code on variables, and the MCPB manifest specification 0.3, November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from fairlead_api.client_files.interpolation import REFERENCE

_EDITOR_INPUT: Final = re.compile(r"\$\{(?:input|command|config|promptString|pickString)[:.][^}]*\}")
"""Matches placeholders for values that an editor requests from its user, or takes from its settings."""
EDITOR_VARIABLES: Final = frozenset(
    {
        "workspaceFolder",
        "workspaceRoot",
        "workspaceFolderBasename",
        "fileWorkspaceFolder",
        "file",
        "fileDirname",
        "userHome",
        "cwd",
        "execPath",
        "selectedText",
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_PLUGIN_ROOT",
        "workspacePath",
    }
)
"""Names that an editor resolves, but that are not environment variables."""
_NESTED: Final = frozenset({"settings", "mcp", "mcpServers"})
"""Folders within that of an editor that may hold the configuration files, such as `.kiro/settings`."""
_BARE: Final = re.compile(r"(?<![\w$\\])\$([A-Za-z_][A-Za-z0-9_]*)|%([A-Za-z_][A-Za-z0-9_]*)%")
_BRACED_ENV: Final = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_BRACED_FILE: Final = re.compile(r"\{file:[^}]*\}")
_COMMAND: Final = re.compile(r"^\$: |\$\{cmd:[^}]*\}")
"""Matches values for which mcphub.nvim runs a command."""
_FILE: Final = re.compile(r"\$\{file:[^}]*\}")
_SECRETS: Final = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

_UNFILLED: Final = re.compile(
    r"(?:^|[\s=:])\$[A-Z_][A-Z0-9_]+\b|%[A-Z_][A-Z0-9_]*%|\{env:\w+\}|\{\{[^{}]+\}\}|\$\{\{[^{}]*\}\}|\$\{[^}]*\}"
)
_UNFILLED_PART: Final = re.compile(r"<[^<>]*>|\{[^{}]*\}")
REPLACE_IT: Final = "replace it by the value, or by ${NAME} for an environment variable"
_PLACEHOLDER: Final = re.compile(
    r"(?:(?:Bearer|Basic|token)\s+)?(?:<[^<>]+>|\[[A-Z_ -]+\]|(?:(?:[a-z]+[-_])?your|insert|enter|replace)[-_ ][\w -]*|"
    r"[\w-]*_here|change-?me|xxx+|\.\.\.|todo|sk-(?:\.{3}|x{3,})|(?:[a-z]:)?[\\/]?(?:absolute[\\/])?path[\\/]to[\\/].*)",
    re.IGNORECASE,
)


_RUNS_COMMAND: Final = "runs a command: put its output into an environment variable, and write ${NAME}"


class AskedForValue(ValueError):
    """A value that only an editor or its user can supply. The message says what to write instead."""


def _bare_variables(text: str, environ: Mapping[str, str]) -> str:
    """Convert `$NAME` and `%NAME%` to `${NAME}` if the variable is set. Otherwise they stay unchanged, as in Gemini
    CLI."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f"${{{name}}}" if name in environ else match[0]

    return _BARE.sub(value, text)


def _crush(text: str, environ: Mapping[str, str]) -> str:
    if "$(" in text:
        raise AskedForValue(_RUNS_COMMAND)
    return _bare_variables(text, environ)


def _opencode(text: str, environ: Mapping[str, str]) -> str:
    if _BRACED_FILE.search(text):
        raise AskedForValue("refers to a file: put its content into an environment variable, and write {env:NAME}")
    return _BRACED_ENV.sub(r"${\1}", text)


def _continue(text: str, environ: Mapping[str, str]) -> str:
    return _SECRETS.sub(r"${\1}", text)


def _leave(text: str, environ: Mapping[str, str]) -> str:
    return text


DIALECTS: Final[Mapping[str, Callable[[str, Mapping[str, str]], str]]] = {
    "": _leave,
    "bundle": _leave,
    "gemini": _bare_variables,
    "goose": _bare_variables,
    "crush": _crush,
    "opencode": _opencode,
    "continue": _continue,
}
"""Functions that convert a client's variable syntax to `${NAME}`, by dialect. They raise AskedForValue."""


@dataclass(frozen=True)
class FileSurroundings:
    """Values that depend on where a configuration file is."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Values of editor variables, by name."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Replacements for placeholders such as `${user_config.KEY}`; variables in the replacement are resolved too."""
    gemini: bool = False
    """Whether the file belongs to Gemini CLI, where `$NAME` is a variable."""


def surroundings_of(file: PurePath, home: str | None) -> FileSurroundings:
    """Variables that an editor would set for a file, whose path is absolute. The workspace is the folder above
    `.vscode`, `.cursor` and the like. A file in the home folder has no workspace, because it does not belong to a
    project.
    """
    folder = file.parent.parent if file.parent.name in _NESTED else file.parent
    editor = folder.name if folder.name.startswith(".") and folder.name != ".." else ""
    variables = {"extensionPath": str(file.parent)}  # of an extension of Gemini CLI, beside whose manifest it is
    if home:
        variables["userHome"] = home
    workspace = str(folder.parent) if editor else str(file.parent) if file.name == ".mcp.json" else None
    if workspace is not None and workspace != home:
        variables |= dict.fromkeys(("workspaceFolder", "workspaceRoot", "fileWorkspaceFolder", "cwd"), workspace)
        variables["workspaceFolderBasename"] = PurePath(workspace).name
        variables |= dict.fromkeys(("CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT"), workspace)
    return FileSurroundings(variables, {"${/}": "/", "${pathSeparator}": "/"}, editor in (".gemini", ".qwen"))


def refuse_editor_inputs(text: str) -> None:
    """Raises AskedForValue for `${input:…}` and the like, `${file:…}` of Windsurf, and commands of mcphub.nvim."""
    if _COMMAND.search(text):
        raise AskedForValue(_RUNS_COMMAND)
    if _FILE.search(text):
        raise AskedForValue("refers to a file: put its content into an environment variable, and write ${env:NAME}")
    if match := _EDITOR_INPUT.search(text):
        kind = match[0][2:].partition(":")[0].partition(".")[0]
        source = "a setting" if kind == "config" else "an input"
        raise AskedForValue(f"requires {source} of the editor: use an environment variable instead, ${{env:NAME}}")


def has_unfilled_part(url: str) -> bool:
    """Whether a URL has a part in `<>` or `{}`, characters that no URL has, in which somebody should put a value."""
    return _UNFILLED_PART.search(url) is not None


def placeholder_remark(text: str) -> str | None:
    """Remark about a value that looks like an unresolved placeholder; None for any other value. `text` is the value
    before variables are resolved.
    """
    if match := _UNFILLED.search(REFERENCE.sub("", text)):
        name = match[0].strip(" =:")
        return f"contains {name}, which looks like a variable but is sent as it is: write ${{NAME}}"
    if _PLACEHOLDER.fullmatch(text.strip()):
        return f"looks like a placeholder: {REPLACE_IT}"
    return None
