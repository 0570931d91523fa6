"""Test files that a merge leaves out: nothing that decides them has changed since they passed on this machine.

A file is decided by the modules that it imports, directly or indirectly, the data in the packages of these, the paths
of READS, and the environment. CANDIDATES are folders of which that is all: their tests start no process of the product.

    python -m unchanged_tests list STATES PASSED           print the files to leave out; write the states of candidates
    python -m unchanged_tests keep STATES PASSED RECORD    keep the states of those whose tests all passed in the record
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from affected_tests import ROOT, SOURCES, imports_of, module_of
from run_record import Event, read

CANDIDATES: Final = ("tests/chart", "tests/component/controlplane")
"""Folders of the test files that may be left out."""
_ALWAYS: Final = ("pyproject.toml", "tests/conftest.py", "tests/support/unchanged_tests.py")
_CHART: Final = (
    "charts",
    "crds",
    "hack/kubernetes",
    "operator/network-probe.yaml",
    "operator/rbac.yaml",
    "tests/chart/conftest.py",
    "tests/chart/crds",
    "tests/chart/values",
)
_WITH_PAGES: Final = (*_CHART, "README.md", "docs")
READS: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/chart": _CHART,
    "tests/chart/test_authorization_server.py": _WITH_PAGES,
    "tests/chart/test_images.py": (
        # without the modules in the image: `hack/e2e` runs it at a merge, and its tests run by night
        ".dockerignore",
        "gateway/Dockerfile",
        "hack/compilation.py",
        "hack/env.sh",
        "hack/imageroot.py",
        "hack/images",
        "hack/kubernetes",
        "hack/metadata.py",
        "hack/progress.py",
        "hack/with_progress.sh",
        "operator/listener",
        "requirements",
    ),
    "tests/chart/test_namespace_administrators.py": _WITH_PAGES,
    "tests/chart/test_page_values.py": (*_WITH_PAGES, "examples"),
    "tests/chart/test_readme.py": _WITH_PAGES,
    "tests/chart/test_two_releases.py": _WITH_PAGES,
    "tests/component/controlplane": ("crds", "hack/env.sh", "hack/kubernetes"),
}
"""Paths that the tests of a folder or of a file read, other than modules that they import."""
_OF_THE_WHOLE_TREE: Final = ("tests/chart/test_metadata.py",)
"""Candidates that always run: they ask for paths anywhere in the tree."""
_PROGRAMS: Final = ("helm", "kubeconform")


def imported_files(test: Path, root: Path = ROOT) -> set[Path]:
    """The test file and all modules of the tree that it imports, directly or indirectly, below the root."""
    waiting = [test]
    files: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            waiting += _imported_directly(file, root)
    return files


@functools.cache
def _imported_directly(file: Path, root: Path) -> frozenset[Path]:
    names = {
        *imports_of((root / file).read_text(encoding="utf-8"), module_of(file), package=file.name == "__init__.py")
    }
    return frozenset(imported for name in names for imported in _files_of(name, root))


@functools.cache
def _files_of(name: str, root: Path) -> tuple[Path, ...]:
    below = Path(*name.split("."))
    files = [file for source in SOURCES for file in (Path(source, below, "__init__.py"), Path(source, f"{below}.py"))]
    return tuple(file for file in files if (root / file).is_file())


@functools.cache
def _digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


def state(test: Path, environment: str = "", root: Path = ROOT) -> str:
    """Hash of everything that decides a test file."""
    modules = imported_files(test, root)
    packages = {Path(*file.parts[:2]) for file in modules if file.parts[0] in ("crds", "operator", "gateway")}
    data = {file for package in packages for file in _files_in(package, root) if file.suffix != ".py"}
    reads = READS.get(str(test)) or READS.get(str(test.parent), ())
    files = modules | data | {file for path in (*_ALWAYS, *reads) for file in _files_in(Path(path), root)}
    digest = hashlib.sha256(environment.encode())
    for file in sorted(files):
        digest.update(f"\n{file} ".encode() + _digest(root / file))
    return digest.hexdigest()


@functools.cache
def _files_in(path: Path, root: Path) -> tuple[Path, ...]:
    """The file, or the files of the folder."""
    files = [root / path, *(root / path).rglob("*")]
    ours = [file for file in files if not {"__pycache__", "node_modules"}.intersection(file.parts) and file.is_file()]
    return tuple(file.relative_to(root) for file in ours)


def environment_of_tests() -> str:
    """Interpreter, installed packages, and programs that tests run, whose folders are named by their releases."""
    packages = sorted({f"{package.name} {package.version}" for package in distributions()})
    programs = [os.environ.get("KUBEBUILDER_ASSETS", ""), *(shutil.which(name) or "" for name in _PROGRAMS)]
    return "\n".join([sys.version, platform.platform(), *programs, *packages])


def unchanged(states: Mapping[str, str], passed: Mapping[str, str]) -> list[str]:
    """Files that have passed in the state in which they are."""
    return [test for test, of_test in states.items() if passed.get(test) == of_test]


def wholly_passed(events: Iterable[Event]) -> set[str]:
    """Test files of a record of which all tests have passed, and none was skipped."""
    outcomes = defaultdict[str, set[str]](set)
    for event in events:
        if "test" in event:
            outcomes[event["test"].partition("::")[0]].add(event["outcome"])
    return {test for test, of_test in outcomes.items() if of_test == {"passed"}}


def _read(file: Path) -> dict[str, str]:
    return dict(json.loads(file.read_text())) if file.exists() else {}


def main(verb: str, states_file: Path, passed_file: Path, *record: str) -> None:
    passed = _read(passed_file)
    if verb == "list":
        files = [file.relative_to(ROOT) for folder in CANDIDATES for file in sorted((ROOT / folder).glob("test_*.py"))]
        tests = [file for file in files if str(file) not in _OF_THE_WHOLE_TREE]
        environment = environment_of_tests()
        states = {str(test): state(test, environment) for test in tests}
        states_file.write_text(json.dumps(states))
        sys.stdout.write("".join(f"{test}\n" for test in unchanged(states, passed)))
        return
    states = _read(states_file)
    passed |= {test: states[test] for test in wholly_passed(read(Path(record[0]))) if test in states}
    new = passed_file.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(passed, indent=0, sort_keys=True))
    new.rename(passed_file)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
