"""Plans how a package of PyPI or npm is installed and started, and explains failed installations. Runs no program, and
only reads installed files.

`packages` runs the planned steps. The URLs of registries come only from the configuration of `uv` and `npm`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fairlead_api.extras import install_command
from fairlead_mcp.diagnosis import diagnosis
from fairlead_mcp.surroundings import INHERITED, NETWORK

Registry = Literal["npm", "pypi"]
_MAX_NAMED: Final = 3
"""Maximum number of packages that a message names."""
TITLES: Final[dict[Registry, str]] = {"npm": "npm", "pypi": "PyPI"}


class PackageVersion(NamedTuple):
    """One version of one package."""

    registry: Registry
    name: str
    version: str
    executable: str | None = None
    """Program of the package to run. None: its only program, or the program with the package's name."""
    build: bool = False
    """Whether the installation may run code of the package and its dependencies (builds, install scripts)."""

    def __str__(self) -> str:
        return f"{self.name}{'==' if self.registry == 'pypi' else '@'}{self.version}"

    @property
    def folder(self) -> str:
        """Folder name, unique for name, version and `build`."""
        return re.sub(r"[^A-Za-z0-9._@-]", "+", f"{self.name}@{self.version}") + "+build" * self.build


@dataclass(frozen=True)
class Launch:
    """Command that starts the server of an installed package directly, without a wrapper process."""

    command: str
    args: tuple[str, ...] = ()
    skipped_steps: str = ""
    """Clause about skipped installation steps that the server may need; empty if none was skipped."""


@dataclass(frozen=True)
class Tools:
    """Paths of the programs that install and start packages; None for a missing program."""

    uv: str | None = None
    npm: str | None = None
    node: str | None = None
    python: str = sys.executable
    """The interpreter of the virtual environments of PyPI packages."""


@dataclass(frozen=True)
class Step:
    """One command of an installation, with the variables that it adds to the environment."""

    argv: tuple[str, ...]
    env: dict[str, str]
    settings_prefix: str = ""
    """Prefix of the installer's own environment variables, in lower case."""

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Environment of the command, from `environ`, that of this process.

        Only basic variables, variables about the network, and the installer's own settings are inherited, because code
        of the package may run and could read secrets.
        """
        return {name: value for name, value in environ.items() if self._is_inherited(name)} | self.env

    def _is_inherited(self, name: str) -> bool:
        lower, prefix = name.lower(), self.settings_prefix
        return name in INHERITED or lower in NETWORK or (prefix != "" and lower.startswith(prefix))


class InstallFailed(Exception):
    """A package could not be installed; the message is one sentence for users."""

    def __init__(self, message: str, *, network: bool = False) -> None:
        super().__init__(message)
        self.network = network
        """Whether the registry could not be reached, so that an early retry makes sense."""


def plan_steps(package: PackageVersion, target: Path, tools: Tools, cache: Path) -> list[Step]:
    """The commands that install `package` into the empty folder `target`.

    Raises InstallFailed when a program is missing.
    """
    if package.registry == "pypi":
        if tools.uv is None:
            raise InstallFailed(f"the program uv is missing: {install_command('up')}")
        env = {
            "UV_CACHE_DIR": str(cache / "uv"),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }
        venv_argv = (tools.uv, "venv", "--quiet", "--no-project", "--python", tools.python, str(target))
        wheels = () if package.build else ("--only-binary", ":all:")
        install_argv = (tools.uv, "pip", "install", *wheels, "--python", str(_python(target)), str(package))
        return [Step(venv_argv, env, "uv_"), Step(install_argv, env, "uv_")]
    if tools.npm is None or tools.node is None:
        raise InstallFailed("npm is not installed on this machine: install Node.js, which includes npm")
    env = {"npm_config_update_notifier": "false", "npm_config_color": "false", "npm_config_progress": "false"}
    flags = ("--no-audit", "--no-fund", "--loglevel=http", *(() if package.build else ("--ignore-scripts",)))
    return [Step((tools.npm, "install", *flags, "--prefix", str(target), str(package)), env, "npm_config_")]


def is_usable(package: PackageVersion, target: Path) -> bool:
    """Whether the package in `target` can still be started. Its interpreter may have been removed."""
    if package.registry == "npm":
        return (target / "node_modules" / package.name / "package.json").exists()
    return _python(target).exists()


def find_launch(package: PackageVersion, target: Path, tools: Tools) -> Launch:
    """The command of the package in `target`. Raises InstallFailed if it has no program."""
    return _npm_launch(package, target, tools) if package.registry == "npm" else _pypi_launch(package, target)


_PROGRESS_WORDS: Final = ("Resolved", "Downloading", "Downloaded", "Prepared", "Building")


def progress(registry: Registry, line: str, index: int) -> str | None:
    """Progress message from one line of an installer's output, or None; `index` is the number of lines before it."""
    text = line.strip()
    if registry == "npm":
        return f"fetched {index + 1} files" if index % 25 == 24 and text.startswith("npm http fetch") else None
    return text[:1].lower() + text[1:] if text.startswith(_PROGRESS_WORDS) else None


_NETWORK_ERROR: Final = re.compile(
    r"error sending request|network (?:was|connectivity is) disabled|dns error|operation timed out|ENOTFOUND|EAI_AGAIN"
    r"|ENOTCACHED|ENETUNREACH|EHOSTUNREACH|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|only-if-cached",
    re.IGNORECASE,
)
_NOT_IN_REGISTRY: Final = re.compile(
    r"there is no version of|was not found in the package registry|\bE404\b|\bETARGET\b"
)
_NO_WHEEL: Final = re.compile(r"building from source is disabled|has no usable wheels")


def explain(package: PackageVersion, lines: Sequence[str]) -> InstallFailed:
    """Summarize the output of a failed installer in one sentence."""
    output = "\n".join(lines)
    title = TITLES[package.registry]
    if _NETWORK_ERROR.search(output):
        return InstallFailed(f"{package} could not be fetched from {title}, which cannot be reached", network=True)
    if _NO_WHEEL.search(output):
        return InstallFailed(
            f"{package}, or one of its dependencies, has no wheel for this machine. It was not built from source, "
            "because a build runs the package's code; to allow builds, set package.allowBuild to true in the spec"
        )
    if _NOT_IN_REGISTRY.search(output):
        return InstallFailed(f"{title} has no {package}: check the name and the version")
    cause = re.sub(r"^error:\s*", "", diagnosis(lines)) or "the installer printed nothing"
    return InstallFailed(f"{package} could not be installed: {cause}")


def _python(environment: Path) -> Path:
    return environment / "bin" / "python"


def _pypi_launch(package: PackageVersion, target: Path) -> Launch:
    """The command of a Python package: its console script, else `python -m` its module. Raises InstallFailed."""
    name = re.sub(r"\[.*", "", package.name)
    scripts = _console_scripts(target, name)
    script = _choose(package, scripts, name)
    if script is not None:
        return Launch(str(target / "bin" / script))
    module = re.sub(r"[-.]+", "_", name)
    if any(target.glob(f"lib/python*/site-packages/{module}/__main__.py")):
        return Launch(str(_python(target)), ("-m", module))
    raise _no_program_error(package, scripts)


def _console_scripts(target: Path, name: str) -> list[str]:
    """Names of the distribution's console scripts (PyPA, entry points specification)."""
    distribution = _canonical_name(name)
    for metadata in target.glob("lib/python*/site-packages/*.dist-info"):
        if _canonical_name(metadata.name.split("-", 1)[0]) != distribution:
            continue
        parser = ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # type: ignore[assignment, method-assign]  # names are case-sensitive
        try:
            parser.read(metadata / "entry_points.txt", encoding="utf-8")
        except (OSError, ConfigParserError):
            return []
        return sorted(parser["console_scripts"]) if parser.has_section("console_scripts") else []
    return []


def _canonical_name(name: str) -> str:
    """Name of a package in normalized form (PyPA, names and normalization)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _choose(package: PackageVersion, names: Sequence[str], default: str) -> str | None:
    """The program to run: the requested one, or else the only one, or else that with the name `default`, or None."""
    if package.executable is not None:
        return package.executable if package.executable in names else None
    if len(names) == 1:
        return names[0]
    return next((name for name in names if _canonical_name(name) == _canonical_name(default)), None)


def _no_program_error(package: PackageVersion, names: Sequence[str]) -> InstallFailed:
    if not names:
        return InstallFailed(f"{package} is a library: it contains no program to run")
    programs = f"{package} contains {', '.join(names)}"
    if package.executable is not None:
        return InstallFailed(f"{programs}, but no program named {package.executable}")
    return InstallFailed(f"{programs}: set package.executable to the program to run")


def _npm_launch(package: PackageVersion, target: Path, tools: Tools) -> Launch:
    """The command of an npm package, from `bin` in its package.json. Raises InstallFailed."""
    folder = target / "node_modules" / package.name
    try:
        manifest = json.loads((folder / "package.json").read_bytes())
        bin_member = manifest.get("bin") or {}
    except (OSError, ValueError, AttributeError) as error:
        raise InstallFailed(f"{package} was installed without a readable package.json") from error
    unscoped = package.name.rsplit("/", 1)[-1]
    programs: dict[str, str] = {unscoped: bin_member} if isinstance(bin_member, str) else dict(bin_member)
    program_name = _choose(package, sorted(programs), unscoped)
    if program_name is None:
        raise _no_program_error(package, sorted(programs))
    program = (folder / programs[program_name]).resolve()
    skipped_steps = "" if package.build else _skipped_scripts(target)
    if _is_javascript(program) and tools.node is not None:
        return Launch(tools.node, (str(program),), skipped_steps)
    return Launch(str(program), skipped_steps=skipped_steps)


def _skipped_scripts(target: Path) -> str:
    """Clause about the packages whose install scripts were not run, from npm's lock file; empty if there are none."""
    try:
        lock_file = json.loads((target / "node_modules" / ".package-lock.json").read_bytes())
        packages: dict[str, object] = lock_file["packages"]
        paths_with_scripts = [
            path for path, package in packages.items() if isinstance(package, dict) and package.get("hasInstallScript")
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    if not paths_with_scripts:
        return ""
    names = ", ".join(sorted(path.rpartition("node_modules/")[2] for path in paths_with_scripts)[:_MAX_NAMED])
    more = f" and {len(paths_with_scripts) - _MAX_NAMED} more" if len(paths_with_scripts) > _MAX_NAMED else ""
    return f"install scripts of {names}{more} were not run; package.allowBuild: true allows them"


def _is_javascript(program: Path) -> bool:
    """Whether a program is JavaScript for Node.js, by its file name or its first line."""
    if program.suffix in {".js", ".mjs", ".cjs"}:
        return True
    try:
        with program.open("rb") as file:
            return b"node" in file.readline(200)
    except OSError:
        return False
