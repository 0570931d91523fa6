"""Mutants of a module: its text with one small change that a test should detect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """`text` in place of the characters from `start` to `end` of a module's text; `line` counts from 1."""

    line: int
    start: int
    end: int
    before: str
    text: str

    def apply(self, source: str) -> str:
        """Mutated text. Raises ImportError if the module's text differs from that for which the mutant was made."""
        if source[self.start : self.end] != self.before:
            raise ImportError(f"line {self.line} is not {self.before!r} any more")
        return source[: self.start] + self.text + source[self.end :]

    def __str__(self) -> str:
        return f"{_short(self.before)}  ->  {_short(self.text)}"


def mutants_of(source: str) -> list[Mutant]:
    """All mutants of a module in the order of its text. Docstrings, annotations and imports are not changed."""
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    encoded = source.encode()

    def position(line: int, column: int) -> int:
        return len(encoded[: lines[line - 1] + column].decode())

    mutants = {}
    for node, text in _changes(ast.parse(source)):
        start = position(node.lineno, node.col_offset)
        end = position(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        mutant = Mutant(node.lineno, start, end, source[start:end], text)
        if mutant.text != mutant.before:
            mutants[start, end, text] = mutant
    return [mutants[key] for key in sorted(mutants)]


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Nodes and their replacements. Parentheses separate a replaced expression from the surrounding code."""
    for node in _behaviour(tree):
        if isinstance(node, ast.expr):
            yield from ((node, text) for text in _expressions(node))
        elif isinstance(node, ast.If | ast.While):
            if not isinstance(node.test, ast.Compare | ast.UnaryOp):
                yield node.test, f"(not ({_unparse(node.test)}))"
        elif isinstance(node, ast.stmt):
            yield from ((node, text) for text in _statements(node))


def _expressions(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield f"({_unparse(ast.Compare(node.left, [COMPARISONS[type(op)]()], node.comparators))})"
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield f"({_unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({_unparse(node.operand)})"
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield f"({_unparse(ast.BinOp(node.left, OPERATORS[type(operator)](), node.right))})"
        case ast.IfExp():
            yield f"({_unparse(ast.IfExp(node.test, node.orelse, node.body))})"
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
        case _:
            pass


def _statements(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Return(value=ast.expr()):
            yield "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete() | ast.Raise():
            yield "pass"
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"
        case _:
            pass


def _behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes with behavior: without annotations, imports and the content of f-strings."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr):
                yield child
                yield from _behaviour(child)


def _unparse(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node))


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= 60 else f"{joined[:57]}..."
