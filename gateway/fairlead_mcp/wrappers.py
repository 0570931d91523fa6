"""Commands that fetch a program and then stay in front of it: `npx PACKAGE …` and `uvx PACKAGE …`. Pure.

`fairlead_mcp.direct` has such a wrapper find its program, and starts the program without it. Here stands which commands
are simple enough for that, what is run to find the program, and how the program is started. Whatever is not certain to
be the same without the wrapper is None, and keeps it.
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
"""A variable of a server's own environment: set to anything but nothing, its wrapper stays."""
SHELL: Final = "npm_config_script_shell"
"""npm's setting of the shell that runs a program of `npx`, and the scripts of packages (npm documentation, config)."""
NPM_MAJOR: Final = 9
"""The first npm that hands the shell its command as one argument; older ones write it to a file, which they remove."""
UV: Final = (0, 6)
"""The first uv whose `--from` takes what `uvx` takes, and no more."""

_FLAGS: Final = {"npx": {"-y", "--yes", "-q", "--quiet"}, "uvx": {"-q", "--quiet"}}
_FROM: Final = {"npx": ("-p", "--package"), "uvx": ("--from",)}
_NPM: Final = re.compile(r"(?:@[a-z0-9~-][\w.~-]*/)?[a-zA-Z0-9~-][\w.~-]*(?:@[\w.~^<>=|*+ -]+)?", re.ASCII)
_PYPI: Final = re.compile(
    r"(?P<name>[a-zA-Z0-9](?:[\w.-]*[a-zA-Z0-9])?)(?:\[[\w.,-]+\])?(?:[@=<>!~][\w.,*+!=<>~ -]*)?", re.A
)
_NORMAL: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
"""A name that PyPI writes as it is typed (PEP 503), so that the program of this name is the one meant."""
_INTERPRETER: Final = re.compile(r"(?:c?python|pypy|graalpy|pyodide)[\d.]*")
"""Names that `uvx` takes for interpreters, not for packages."""


class Wrapper(NamedTuple):
    """A command that begins with a wrapper, and does nothing unusual with it."""

    kind: Literal["npx", "uvx"]
    command: str
    package: str
    """As its registry is asked for it, with a version or without."""
    lead: tuple[str, ...]
    """Words before the package's program and its arguments: flags, and the package where it is named apart."""
    program: str
    """Name of the package's program; for `npx`, which finds it by itself, what stands in its place."""
    args: tuple[str, ...]

    def probe(self, script: str) -> tuple[str, ...]:
        """The command that does all that the wrapper does, and runs `script` in place of the program."""
        if self.kind == "npx":  # it runs what SHELL names, and finds the program by the words it was given
            return (self.command, *self.lead, self.program, *self.args)
        return (self.command, *self.lead, script)


@dataclass(frozen=True)
class Start:
    """How the program is started: as the wrapper would."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


def wrapper(spec: ChildSpec) -> Wrapper | None:
    """The wrapper of a command; None where there is none, it is to be kept, or it does something unusual."""
    name, args = PurePath(spec.command).name, list(spec.args)
    lead: list[str] = []
    if name == "uv" and args[:2] == ["tool", "run"]:
        name, lead, args = "uvx", args[:2], args[2:]
    env = {key.lower(): value for key, value in spec.env}
    if name not in _FLAGS or env.get(KEEP.lower()) or (name == "npx" and SHELL in env):
        return None
    kind: Literal["npx", "uvx"] = "npx" if name == "npx" else "uvx"
    package = None
    while args and args[0].startswith("-"):
        word = args.pop(0)
        option, joined, value = word.partition("=")
        if option in _FROM[kind] and package is None and (joined or args):
            package = value if joined else args.pop(0)
            lead += [word] if joined else [word, package]
        elif word == "--" and kind == "npx":
            lead.append(word)
            break
        elif word in _FLAGS[kind]:
            lead.append(word)
        else:
            return None
    if not args:
        return None
    return _npx(spec.command, package, lead, args) if kind == "npx" else _uvx(spec.command, package, lead, args)


def _npx(command: str, package: str | None, lead: list[str], args: list[str]) -> Wrapper | None:
    if _NPM.fullmatch(package or args[0]) is None or _NPM.fullmatch(args[0]) is None:
        return None
    return Wrapper("npx", command, package or args[0], tuple(lead), args[0], tuple(args[1:]))


def _uvx(command: str, package: str | None, lead: list[str], args: list[str]) -> Wrapper | None:
    wanted = package or args[0]
    match = _PYPI.fullmatch(wanted)
    if match is None or _INTERPRETER.fullmatch(match["name"]):
        return None
    program = args[0] if package else match["name"]
    if package is None:
        lead = [*lead, "--from", wanted]
        if _NORMAL.fullmatch(program) is None:
            return None
    elif "/" in program or _INTERPRETER.fullmatch(program):
        return None
    return Wrapper("uvx", command, wanted, tuple(lead), program, tuple(args[1:]))


def is_npm(manifest: bytes) -> bool:
    """Whether a `package.json` is that of an npm whose `npx` is known to do what is expected here."""
    try:
        content = json.loads(manifest)
        return content["name"] == "npm" and int(content["version"].split(".")[0]) >= NPM_MAJOR
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def is_uv(version: str) -> bool:
    """Whether a program that prints this as its version is a `uv` or `uvx` that does what is expected here."""
    match = re.match(r"(?:uvx?|uv-tool-uvx) (\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= UV


def script(interpreter: str, mark: str, wrapped: Wrapper, given: Mapping[str, str]) -> str:
    """A program that prints `mark`, then its arguments, folder and environment as JSON. `given`, the environment of the
    wrapper, says what of it is the doing of this program's interpreter, and is undone.
    """
    others = _OTHER_SCRIPTS if wrapped.kind == "npx" else ""
    return _SCRIPT.format(
        interpreter=interpreter,
        mark=mark,
        locale={name: value for name, value in given.items() if name == "LC_CTYPE"},
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
    """How the program is started, by what the script printed; None where the wrapper did something unexpected."""
    try:
        words, cwd, env = json.loads(answer)
    except (ValueError, TypeError):
        return None
    if wrapped.kind == "uvx":
        return Start((wrapped.program, *wrapped.args), env, cwd) if not words else None
    if len(words) != 2 or words[0] != "-c":
        return None
    # without exec many a shell stays in front of the program
    return Start(("sh", "-c", f"exec {words[1]}"), env, cwd)
