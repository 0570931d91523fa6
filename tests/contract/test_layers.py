"""Layers of the gateway: each part is in a contract of pyproject.toml, packages form no cycle, and the core has only
types."""

from __future__ import annotations

import ast
import functools
import graphlib
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = ROOT / "gateway" / "fairlead_gateway"
MODULES = {
    ".".join(file.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__"): file
    for folder in ("crds", "operator", "gateway")
    for file in sorted((ROOT / folder).glob("fairlead_*/**/*.py"))
}
CORE = sorted((GATEWAY / "core").glob("*.py"))
PURE = {"__future__", "collections", "dataclasses", "hashlib", "msgspec", "mypy_extensions", "types", "typing"}
OURS = {"fairlead_api", "fairlead_formats", "fairlead_gateway", "fairlead_mcp", "fairlead_tools"}
LONGEST_METHOD = 10
"""Maximum number of statements of a method. Constructors may have as many as their class has attributes."""


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"].startswith("layers of the gateway: ")]
    return [f"{contract['containers'][0]}.{name.strip()}" for layer in contract["layers"] for name in layer.split("|")]


def packages_in_order() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"].startswith("layers of packages: ")]
    return [name.strip() for layer in contract["layers"] for name in layer.split("|")]


def package(module: str) -> str:
    """Folder or module directly in `fairlead_gateway`, or another whole package."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "fairlead_gateway" else parts[0]


def imports(module: str, source: str) -> Iterator[str]:
    """Modules of this project that a source imports, including imports for type checkers and in functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else str(node.module) for name in names)


def packages(sources: Mapping[str, str]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {package(module): set() for module in sources}
    for module, source in sources.items():
        graph[package(module)] |= {package(name) for name in imports(module, source)} - {package(module)}
    return graph


def test_every_package_has_one_layer() -> None:
    installed = {
        f.parent.name for folder in ("crds", "operator", "gateway") for f in ROOT.glob(f"{folder}/*/__init__.py")
    }

    assert len(installed) > 15
    assert Counter(packages_in_order()) == Counter(installed)


def test_every_part_of_the_gateway_has_one_layer() -> None:
    parts = {package(module) for module in MODULES if module.startswith("fairlead_gateway.")}

    assert len(parts) > 20
    assert Counter(layers()) == Counter(parts - {"fairlead_gateway.__main__"})  # imports no module of this project


def test_no_contract_of_layers_has_an_exception() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layered = [contract for contract in contracts if contract["type"] == "layers"]

    assert [contract["name"] for contract in layered if "ignore_imports" in contract] == []
    assert [layer for contract in layered for layer in contract["layers"] if ":" in layer] == []


def test_the_named_layers_are_in_the_order_of_the_design() -> None:
    places = [layers().index(f"fairlead_gateway.{name}") for name in ("endpoint", "calls", "policy", "catalog", "core")]

    assert places == sorted(places)
    assert layers().index("fairlead_gateway.calls") < layers().index("fairlead_gateway.upstream")


def test_no_packages_import_each_other_in_a_cycle() -> None:
    graph = packages({module: file.read_text(encoding="utf-8") for module, file in MODULES.items()})

    assert len(graph) > 30
    graphlib.TopologicalSorter(graph).prepare()


def run_imports(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a module, without those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from run_imports(child)


@functools.cache
def running_imports() -> dict[str, set[str]]:
    """Modules of this project, each with its imports at run time."""
    graph: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        source = ast.parse(file.read_text(encoding="utf-8"))
        lines = [ast.unparse(node) for node in run_imports(source) if isinstance(node, ast.Import | ast.ImportFrom)]
        graph[module] = {*imports(module, "\n".join(lines))} - {module}
    return graph


@pytest.mark.parametrize("depth", [1, 2, 99], ids=["packages", "parts of packages", "files"])
def test_packages_do_not_import_each_other_in_a_circle(depth: int) -> None:
    graph: dict[str, set[str]] = {}
    for module, imported in running_imports().items():
        part = ".".join(module.split(".")[:depth])
        graph.setdefault(part, set()).update({".".join(name.split(".")[:depth]) for name in imported} - {part})

    assert len(graph) > 15
    graphlib.TopologicalSorter(graph).prepare()


def test_a_cycle_of_two_packages_is_found_also_where_type_checkers_alone_see_it() -> None:
    sources = {
        "fairlead_gateway.core.route": "if TYPE_CHECKING:\n    from fairlead_gateway.calls import dispatch",
        "fairlead_gateway.calls.path.dispatch": "def f():\n    import fairlead_gateway.core.route",
    }
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(packages(sources)).prepare()


@pytest.mark.parametrize("file", CORE, ids=lambda file: file.stem)
def test_the_core_holds_types_alone(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert wrong(tree) == []


def wrong(tree: ast.Module) -> list[str]:
    """Parts of a module that are neither types nor small pure functions."""
    problems = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
            problems += [f"imports {name}" for name in names if name.partition(".")[0] not in PURE | OURS]
        elif isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            problems.append(f"waits in line {node.lineno}")
        elif isinstance(node, ast.FunctionDef) and node.name != "__init__" and length(node) > LONGEST_METHOD:
            problems.append(f"{node.name} is long")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"open", "print", "exec", "eval", "__import__"}:
            problems.append(f"calls {ast.unparse(node.func)}")
    return problems


def length(function: ast.FunctionDef) -> int:
    """Number of statements of a method without its docstring. Lines are not counted, because they depend on the
    formatter."""
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return statements - (ast.get_docstring(function) is not None)


@pytest.mark.parametrize(
    "source",
    ["import asyncio", "from socket import socket", "async def f():\n    await g()", "def f():\n    open('x')"],
)
def test_modules_of_the_core_that_do_io_are_found(source: str) -> None:
    assert wrong(ast.parse(source))


def test_the_parts_of_calls_import_each_other_in_no_circle_also_for_type_checkers() -> None:
    name = "fairlead_gateway.calls."
    graph: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        if module.startswith(name):
            part = module.removeprefix(name).split(".")[0]
            named = {each for each in imports(module, file.read_text(encoding="utf-8")) if each.startswith(name)}
            graph.setdefault(part, set()).update({each.removeprefix(name).split(".")[0] for each in named} - {part})

    assert len(graph) > 5
    graphlib.TopologicalSorter(graph).prepare()
