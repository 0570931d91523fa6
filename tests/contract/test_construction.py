"""Objects are complete after construction: other code does not set their attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "fairlead_mcp",
    "fairlead_tools",
    "fairlead_gateway",
    "fairlead_app",
    "fairlead_offers",
    "fairlead_otel",
    "fairlead_web",
    "fairlead_rest",
    "fairlead_client",
    "fairlead_kube",
)
FILES = sorted(file for package in PACKAGES for file in (ROOT / "gateway" / package).rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


def targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Each target of an assignment with its value; None if the value is unpacked."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple):
                yield from ((part, None) for part in target.elts)
            else:
                yield target, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        yield node.target, node.value


def set_from_outside(function: Function) -> Iterator[str]:
    """Attributes that a function sets on objects other than `self` and objects that the function creates."""
    assigned = [target for node in ast.walk(function) for target in targets(node)]
    made = {ast.unparse(target) for target, value in assigned if isinstance(value, ast.Call)}
    for target, _ in assigned:
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) not in {"self", "cls", *made}:
            yield f"line {target.lineno}: {ast.unparse(target)}"


def violations(source: str, *, composition: bool) -> list[str]:
    """Attributes that a module sets on other objects, and hooks that are to be set later."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]
    constructors = [function for function in functions if function.name == "__init__"]
    problems = [
        text for function in (functions if composition else constructors) for text in set_from_outside(function)
    ]
    for constructor in constructors:
        for target, value in (pair for node in ast.walk(constructor) for pair in targets(node)):
            if isinstance(target, ast.Attribute) and isinstance(value, ast.Lambda):
                problems.append(f"line {target.lineno}: {ast.unparse(target)} is a hook to be replaced")
    return problems


def test_attributes_are_not_set_on_an_object_after_it_was_made() -> None:
    for file in FILES:
        composition = "fairlead_app" in file.parts
        assert violations(file.read_text(encoding="utf-8"), composition=composition) == [], file


@pytest.mark.parametrize(
    "body",
    [
        "front.auditor = governance.auditor",
        "front.starting.patience.seconds = 3",
        "plane.guard.auditor, front.auditor = auditor, auditor",
        "made = Front(); made.live.outlet = tell",
        "self.live.outlet = self.streams.tell",
        "self.ended = lambda session: None",
    ],
)
def test_attributes_set_from_outside_are_found(body: str) -> None:
    assert violations(f"class A:\n    def __init__(self, front, plane): {body}", composition=False)


def test_objects_that_a_function_made_may_be_finished_there() -> None:
    source = "def f():\n    app = Starlette()\n    app.state = 1\nclass A:\n    def __init__(self): self.x = X()\n"
    assert violations(source, composition=True) == []
