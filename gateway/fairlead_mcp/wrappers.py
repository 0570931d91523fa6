"""Wrapper commands that fetch a program and stay its parent process: `npx PACKAGE …` and `uvx PACKAGE …`. No I/O.

`fairlead_mcp.direct` starts the program of such a command without the wrapper. This module recognizes commands that are
simple enough for that, and makes the command that finds the program and the command that starts it. Functions return
None where starting without the wrapper might have another effect; then the wrapper keeps running as the parent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal, NamedTuple

from fairlead_mcp.stdio import ChildSpec

KEEP: Final = "FAIRLEAD_KEEP_WRAPPER"
"""Variable in a server's environment that keeps its wrapper if it is not empty."""
SHELL: Final = "npm_config_script_shell"
"""npm's setting for the shell that runs programs of `npx` and scripts of packages (npm documentation, config)."""
NPM_MAJOR: Final = 9
"""First major version of npm that passes the command to the shell as one argument, not in a temporary file."""
UV: Final = (0, 6)
"""First version of uv whose `--from` accepts exactly what `uvx` accepts."""

_FLAGS: Final = {"npx": {"-y", "--yes", "-q", "--quiet"}, "uvx": {"-q", "--quiet"}}
_FROM: Final = {"npx": ("-p", "--package"), "uvx": ("--from",)}
_NPM: Final = re.compile(r"(?:@[a-z0-9~-][\w.~-]*/)?[a-zA-Z0-9~-][\w.~-]*(?:@[\w.~^<>=|*+ -]+)?", re.ASCII)
_PYPI: Final = re.compile(
    r"(?P<name>[a-zA-Z0-9](?:[\w.-]*[a-zA-Z0-9])?)(?:\[[\w.,-]+\])?(?:[@=<>!~][\w.,*+!=<>~ -]*)?", re.A
)
_NORMALIZED_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
"""Matches normalized package names (PEP 503), for which `uvx` looks for a program of the same name."""
_INTERPRETER: Final = re.compile(r"(?:c?python|pypy|graalpy|pyodide)[\d.]*")
"""Matches names that `uvx` reads as interpreters, not as packages."""


class Wrapper(NamedTuple):
    """Parsed command that runs a program by a wrapper, `npx` or `uvx`."""

    kind: Literal["npx", "uvx"]
    command: str
    package: str
    """Package as requested from the registry, with or without a version."""
    wrapper_args: tuple[str, ...]
    """Arguments of the wrapper before the program: flags, and options that name the package."""
    program: str
    """Name of the package's program; for `npx`, which finds the program itself, the first argument."""
    args: tuple[str, ...]

    def probe(self, script: str) -> tuple[str, ...]:
        """Return the wrapper's command with `script` instead of the program."""
        if self.kind == "npx":  # npx runs the script as its shell (SHELL), with the program as an argument
            return (self.command, *self.wrapper_args, self.program, *self.args)
        return (self.command, *self.wrapper_args, script)


@dataclass(frozen=True)
class Start:
    """Command, environment and folder with which the wrapper would start the program."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


def wrapper(spec: ChildSpec) -> Wrapper | None:
    """Parse a command with a wrapper; None if the command has no wrapper, a variable keeps the wrapper running, or an
    option is not recognized.
    """
    name, args = PurePath(spec.command).name, list(spec.args)
    wrapper_args: list[str] = []
    if name == "uv" and args[:2] == ["tool", "run"]:
        name, wrapper_args, args = "uvx", args[:2], args[2:]
    env = {key.lower(): value for key, value in spec.env}
    if name not in _FLAGS or env.get(KEEP.lower()) or (name == "npx" and SHELL in env):
        return None
    kind: Literal["npx", "uvx"] = "npx" if name == "npx" else "uvx"
    package = None
    while args and args[0].startswith("-"):
        word = args.pop(0)
        option, separator, value = word.partition("=")
        if option in _FROM[kind] and package is None and (separator or args):
            package = value if separator else args.pop(0)
            wrapper_args += [word] if separator else [word, package]
        elif word == "--" and kind == "npx":
            wrapper_args.append(word)
            break
        elif word in _FLAGS[kind]:
            wrapper_args.append(word)
        else:
            return None
    if not args:
        return None
    return (
        _npx(spec.command, package, wrapper_args, args)
        if kind == "npx"
        else _uvx(spec.command, package, wrapper_args, args)
    )


def _npx(command: str, package: str | None, wrapper_args: list[str], args: list[str]) -> Wrapper | None:
    if _NPM.fullmatch(package or args[0]) is None or _NPM.fullmatch(args[0]) is None:
        return None
    return Wrapper("npx", command, package or args[0], tuple(wrapper_args), args[0], tuple(args[1:]))


def _uvx(command: str, package: str | None, wrapper_args: list[str], args: list[str]) -> Wrapper | None:
    requested_package = package or args[0]
    match = _PYPI.fullmatch(requested_package)
    if match is None or _INTERPRETER.fullmatch(match["name"]):
        return None
    program = args[0] if package else match["name"]
    if package is None:
        wrapper_args = [*wrapper_args, "--from", requested_package]
        if _NORMALIZED_NAME.fullmatch(program) is None:
            return None
    elif "/" in program or _INTERPRETER.fullmatch(program):
        return None
    return Wrapper("uvx", command, requested_package, tuple(wrapper_args), program, tuple(args[1:]))


def is_npm(manifest: bytes) -> bool:
    """Whether a `package.json` belongs to a supported version of npm."""
    try:
        content = json.loads(manifest)
        return content["name"] == "npm" and int(content["version"].split(".")[0]) >= NPM_MAJOR
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def is_uv(version: str) -> bool:
    """Whether the output of `--version` names a supported version of `uv` or `uvx`."""
    match = re.match(r"(?:uvx?|uv-tool-uvx) (\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= UV


def script(interpreter: str, mark: str, wrapped: Wrapper, environment: Mapping[str, str]) -> str:
    """Make a script that prints `mark`, then its arguments, folder and environment as JSON.

    `environment` is the environment of the wrapper, to undo changes by the script's own interpreter.
    """
    others = _OTHER_SCRIPTS if wrapped.kind == "npx" else ""
    return _SCRIPT.format(
        interpreter=interpreter,
        mark=mark,
        locale={name: value for name, value in environment.items() if name == "LC_CTYPE"},
        others=others,
        shell=SHELL,
    )


_SCRIPT: Final = """\
#!{interpreter} -IS
import json, os, sys
os.environ.pop("LC_CTYPE", None)  # Python coerces it (PEP 538)
os.environ.update({locale!r})
os.environ.pop("{shell}", None)
{others}
print({mark!r} + json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]), flush=True)
"""
_OTHER_SCRIPTS: Final = """\
# npm has one setting for all shells. An install script is run with another event, and what such a script runs with npx
# of its own has another parent than the first process of this session.
if os.environ.get("npm_lifecycle_event") != "npx" or os.getppid() != os.getsid(0):
    os.execvp("sh", ["sh", *sys.argv[1:]])
"""


def start(wrapped: Wrapper, answer: str) -> Start | None:
    """Read how the wrapper would start the program from the script's output; None if the output is unexpected."""
    try:
        words, cwd, env = json.loads(answer)
    except (ValueError, TypeError):
        return None
    if wrapped.kind == "uvx":
        return Start((wrapped.program, *wrapped.args), env, cwd) if not words else None
    if len(words) != 2 or words[0] != "-c":
        return None
    # without exec many shells would stay as the program's parent
    return Start(("sh", "-c", f"exec {words[1]}"), env, cwd)
