"""Layers of the gateway: each part is in the contract of pyproject.toml, packages form no cycle, the core has types."""

from __future__ import annotations

import ast
import graphlib
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = ROOT / "gateway" / "fairlead_gateway"
MODULES = {
    ".".join(file.relative_to(ROOT / "gateway").with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted((ROOT / "gateway").glob("fairlead_*/**/*.py"))
}
CORE = sorted((GATEWAY / "core").glob("*.py"))
PURE = {"__future__", "collections", "dataclasses", "hashlib", "msgspec", "mypy_extensions", "types", "typing"}
OURS = {"fairlead_api", "fairlead_formats", "fairlead_gateway", "fairlead_mcp", "fairlead_tools"}
LONGEST_METHOD = 10
"""Statements. Constructors have as many as their class has attributes."""


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = [contract for contract in contracts if contract["name"].startswith("layers of the gateway: ")]
    assert [set(contract) for contract in found] == [{"name", "type", "layers"}], "one contract, without exceptions"
    return [str(layer) for layer in found[0]["layers"]]


def package(module: str) -> str:
    """Folder or module directly in `fairlead_gateway`, or a whole package beside it."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "fairlead_gateway" else parts[0]


def imports(module: str, source: str) -> Iterator[str]:
    """Modules of ours that a source imports, for type checkers only or in functions, too."""
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


def test_every_part_of_the_gateway_has_one_layer() -> None:
    named = Counter(name.strip() for layer in layers() for name in layer.split("|"))
    parts = {package(module) for module in MODULES if module.startswith("fairlead_gateway.")}

    assert len(parts) > 20
    assert {part: named[part] for part in parts if named[part] != 1} == {}


def test_parts_of_one_layer_do_not_know_each_other() -> None:
    assert [layer for layer in layers() if ":" in layer] == []


def test_the_named_layers_are_in_the_order_of_the_design() -> None:
    order = [name.strip() for layer in layers() for name in layer.split("|")]
    names = ("app", "endpoint", "calls", "policy", "catalog", "core")
    places = [order.index(f"fairlead_gateway.{name}") for name in names]

    assert places == sorted(places)
    assert order.index("fairlead_gateway.calls") < order.index("fairlead_gateway.upstream")
    assert order.index("fairlead_gateway.core") < order.index("fairlead_mcp")


def test_no_packages_import_each_other_in_a_cycle() -> None:
    graph = packages({module: file.read_text(encoding="utf-8") for module, file in MODULES.items()})

    assert len(graph) > 30
    graphlib.TopologicalSorter(graph).prepare()


def test_a_cycle_of_two_packages_is_found_also_where_type_checkers_alone_see_it() -> None:
    sources = {
        "fairlead_gateway.core.route": "if TYPE_CHECKING:\n    from fairlead_gateway.calls import dispatch",
        "fairlead_gateway.calls.dispatch": "def f():\n    import fairlead_gateway.core.route",
    }
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(packages(sources)).prepare()


@pytest.mark.parametrize("file", CORE, ids=lambda file: file.stem)
def test_the_core_holds_types_alone(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert wrong(tree) == []


def wrong(tree: ast.Module) -> list[str]:
    """What is neither a type nor small and pure."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
            found += [f"imports {name}" for name in names if name.partition(".")[0] not in PURE | OURS]
        elif isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            found.append(f"waits in line {node.lineno}")
        elif isinstance(node, ast.FunctionDef) and node.name != "__init__" and length(node) > LONGEST_METHOD:
            found.append(f"{node.name} is long")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"open", "print", "exec", "eval", "__import__"}:
            found.append(f"calls {ast.unparse(node.func)}")
    return found


def length(function: ast.FunctionDef) -> int:
    """Statements of a method, its docstring aside: how many lines they take is up to the formatter."""
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return statements - (ast.get_docstring(function) is not None)


@pytest.mark.parametrize(
    "source",
    ["import asyncio", "from socket import socket", "async def f():\n    await g()", "def f():\n    open('x')"],
)
def test_what_does_io_is_found_in_the_core(source: str) -> None:
    assert wrong(ast.parse(source))
