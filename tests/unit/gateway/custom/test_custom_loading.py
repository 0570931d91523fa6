"""Sources of custom tools: modules, files and entry points, each of which may be broken."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fairlead_gateway.custom.load import GROUP, LoadedTools, load

GOOD = """
from fairlead_gateway import CustomTool, CustomTools, tool

@tool
def first(x: int) -> int:
    return x

@tool
async def second() -> str:
    return "2"

third = CustomTool(name="third", handler=lambda arguments: arguments, input_schema={})
more = CustomTools()
more.register("fourth", "The fourth.", lambda arguments: arguments, input_schema={})

def helper() -> None: ...
"""


def names(loaded: LoadedTools) -> list[str]:
    return [tool.name for tool in loaded.tools]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory. At the end, modules that were imported from it are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return tmp_path


def test_every_tool_of_a_file_is_found_in_order_and_once(folder: Path) -> None:
    (folder / "mine.py").write_text(GOOD)
    loaded = load(["mine.py"], points=())
    assert names(loaded) == ["first", "second", "third", "fourth"]
    assert loaded.problems == ()


def test_a_module_is_found_below_the_working_directory_and_by_member(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "tools.py").write_text(GOOD)
    assert len(load(["shop.tools"], points=()).tools) == 4
    assert names(load(["shop.tools:second"], points=())) == ["second"]
    assert names(load(["shop.tools:more"], points=())) == ["fourth"]
    assert names(load(["shop.tools:helper"], points=())) == ["helper"]


def test_an_entry_point_names_a_module_or_a_tool(folder: Path) -> None:
    (folder / "mine.py").write_text(GOOD)
    sys.path.append(str(folder))
    points = [EntryPoint("all", "mine", GROUP)]
    assert len(load(points=points).tools) == 4
    assert names(load(points=[EntryPoint("one", "mine:second", GROUP)])) == ["second"]


def test_entry_points_of_installed_packages_are_found(folder: Path) -> None:
    (folder / "mine.py").write_text(GOOD)
    info = folder / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = mine\n")
    sys.path.append(str(folder))
    assert names(load()) == ["first", "second", "third", "fourth"]


@pytest.mark.parametrize(
    ("source", "source_file", "why"),
    [
        ("x = 1 / 0\n", "broken.py", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "broken.py", "SyntaxError"),
        ("import not_installed_anywhere\n", "broken.py", "No module named 'not_installed_anywhere'"),
        ("raise SystemExit(3)\n", "broken.py", "SystemExit: 3"),
        ("x = 1\n", "broken.py", "the source defines no tools: mark functions with @tool"),
        ("x = 1\n", "broken:y", "has no attribute 'y'"),
        ("x = 1\n", "broken:x", "int is not a tool"),
        ("x = 1\n", "elsewhere.py", "FileNotFoundError"),
        ("x = 1\n", "else.where", "No module named 'else'"),
    ],
)
def test_a_broken_module_is_told_and_leaves_the_others_alone(
    folder: Path, source: str, source_file: str, why: str
) -> None:
    (folder / "broken.py").write_text(source)
    (folder / "mine.py").write_text(GOOD)
    loaded = load([source_file, "mine.py"], points=())
    assert len(loaded.tools) == 4
    (problem,) = loaded.problems
    assert source_file in str(problem)
    assert why in str(problem)


def test_the_line_that_raised_is_told(folder: Path) -> None:
    (folder / "broken.py").write_text("\n\nx = 1 / 0\n")
    (problem,) = load(["broken.py"], points=()).problems
    assert "broken.py, line 3" in problem.message


def test_a_broken_tool_leaves_the_others_of_its_module_alone(folder: Path) -> None:
    (folder / "mine.py").write_text(GOOD.replace("def first(x: int)", "def first(x: int, /)"))
    loaded = load(["mine.py"], points=())
    assert names(loaded) == ["second", "third", "fourth"]
    assert "'first'" in loaded.problems[0].message


def test_of_two_tools_of_one_name_the_first_is_kept(folder: Path) -> None:
    (folder / "mine.py").write_text(GOOD)
    (folder / "other.py").write_text(GOOD)
    loaded = load(["mine.py", "other.py:first"], points=())
    assert len(loaded.tools) == 4
    assert "broken" not in str(loaded.problems)
    assert len(loaded.problems) == 1
