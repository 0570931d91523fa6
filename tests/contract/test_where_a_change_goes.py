"""docs/contribute/where-a-change-goes.md.

Each kind of change takes one to four files, which exist and contain the named code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import UpstreamRequest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "contribute" / "where-a-change-goes.md").read_text(encoding="utf-8")
GATEWAY = ROOT / "gateway"
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
ROWS = {
    title: re.findall(r"^\| `([^`]+\.py)` \| (.*) \|$", text, re.MULTILINE)
    for title, text in SECTIONS.items()
    if "| file |" in text
}


def test_the_page_has_the_eleven_kinds_of_change_at_one_to_four_files_each() -> None:
    assert {title: 1 <= len(rows) <= 4 for title, rows in ROWS.items()} == {
        "A provider family": True,
        "A header of requests to servers": True,
        "A constraint of policies": True,
        "A metric": True,
        "A REST route": True,
        "A setting": True,
        "A condition, or a reason of one": True,
        "A member of requests that is carried between families": True,
        "The format of API keys": True,
        "Retries, and the next model": True,
        "A client whose configuration is read or written": True,
    }


@pytest.mark.parametrize(("pattern", "change"), [row for rows in ROWS.values() for row in rows])
def test_each_file_is_there_and_defines_what_changes(pattern: str, change: str) -> None:
    files = [file for file in sorted(ROOT.glob(pattern)) if file.name != "__init__.py"]
    names = re.findall(r"`(\w+)`", change)

    assert files
    assert names
    assert {file.name: defined_names(file).isdisjoint(names) for file in files} == {file.name: False for file in files}


def test_every_other_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:crds|operator|gateway)/[\w/]+\.py)`", PAGE))

    assert len(named) > 8
    assert {name for name in named if not (ROOT / name).exists()} == set()


def defined_names(file: Path) -> set[str]:
    """Names that a module defines at its top."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


# Routes and requests are copied as a whole, which keeps these lists short


def test_routes_are_made_by_one_module_and_copied_as_a_whole_by_others() -> None:
    assert {str(file.relative_to(GATEWAY)) for file in files_that_make(Route.__name__)} == {
        "fairlead_gateway/calls/routes/routing.py"
    }


def files_that_make(name: str) -> Iterator[Path]:
    """Files of the gateway that create objects of a class of the core."""
    for file in sorted(GATEWAY.glob("fairlead_*/**/*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = [
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("fairlead_gateway.core")
            for alias in node.names
        ]
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        if name in imported and name in calls:
            yield file


@pytest.mark.skipif(
    not hasattr(UpstreamRequest, "__slots__"), reason="compiled: attributes have types, and nothing lists them"
)
def test_a_copy_of_a_request_to_a_server_has_every_attribute() -> None:
    """A compiled class cannot be a Struct, so it has a method that copies it."""
    names = UpstreamRequest.__slots__
    given = {name: name.encode() for name in names}
    request = UpstreamRequest(b"", "", b"", 0.0, 0)
    for name, value in given.items():
        setattr(request, name, value)  # arbitrary values, which have to be copied

    changed = {
        ("id",): request.with_id(b"2"),
        ("params", "header_lines"): request.with_trace(b"{}", b"t"),
        ("id", "client"): request.in_session(b"2", None),
    }

    lost = {
        parts: {name for name in names if name not in parts and getattr(copy, name) != given[name]}
        for parts, copy in changed.items()
    }
    assert lost == {parts: set() for parts in changed}
    assert request.with_trace(b"{}", b"t").header_lines == b"theader_lines"
