"""Check of names and prose in Python files and in CHANGELOG.md, by what a program can see. Run from `hack/check`.

Prints `FILE:LINE: what is wrong; what to write instead` per finding and exits with 1 when there is one.

Rules: the opening of a docstring is a noun or a verb, never a word that leans on a neighbouring line · a docstring
does not claim who calls its function or makes its object (tests and imports say it, and stay true) · nobody is
called "whoever" · a class name has one definition in all packages · an entry of the changelog is one line of at most
25 words.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("crds", "operator", "gateway", "hack", "tests/support")
PACKAGES = ("crds", "operator", "gateway")
"""Folders of `FOLDERS` whose classes need names of their own: those that ship."""
TWICE = {
    "Server": "documented import of fairlead_client, and the word of MCP for what a catalog has",
    "Settings": "operator and gateway are two processes, each with the object that pydantic and Django call this",
    "Tool": "documented import of fairlead_client, and the word of MCP for what a server lists",
}
"""Class names that may be defined more than once, with the reason: the field itself uses the word twice."""
MAX_WORDS = 25
OPENINGS = re.compile(r"(Of|Once|The same|See the \w+|Whose|What)\b")
CLAIMS = re.compile(r"\b(?:used|called) by\b|(?:^|(?<=[.;] ))(?:made|told|asked) by\b", re.IGNORECASE | re.MULTILINE)
WHOEVER = re.compile(r"\bwhoever\b", re.IGNORECASE)


def main() -> int:
    """Print all findings of the working directory; the exit code of the program."""
    findings = [*found_in(Path()), *changelog("CHANGELOG.md", Path("CHANGELOG.md").read_text())]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def found_in(root: Path) -> list[str]:
    """Findings in all Python files below `root`, in the order of their paths."""
    findings: list[str] = []
    classes: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if "node_modules" in path.parts:
                continue
            text = path.read_text("utf-8")
            tree = ast.parse(text, name)
            findings += prose(name, text, tree)
            if folder in PACKAGES:
                for node in _blocks(tree):
                    if isinstance(node, ast.ClassDef):
                        classes.setdefault(node.name, []).append(f"{name}:{node.lineno}")
    return [*findings, *twice(classes)]


def prose(name: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Findings in the docstrings and the words of one file."""
    for line, docstring in sorted(docstrings(tree)):
        if opening := OPENINGS.match(docstring.lstrip()):
            yield (
                f'{name}:{line}: a docstring opens with "{opening[0]}"; begin with a noun or a verb that says what the '
                "thing is, in a sentence that needs no other line"
            )
        if claim := CLAIMS.search(docstring):
            at = line + docstring.count("\n", 0, claim.start())
            yield (
                f'{name}:{at}: a docstring says "{claim[0].lower()}"; say what the thing does and leave callers '
                "to imports and tests"
            )
    if WHOEVER.search(text):
        for line, words in enumerate(text.splitlines(), 1):
            if WHOEVER.search(words) and not name.endswith("hack/prose.py"):
                yield (
                    f'{name}:{line}: "whoever"; name the party: the caller, the client, the principal, the agent, '
                    "the user, the process"
                )


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring: of the module, of classes and functions, and those below attributes."""
    for block in _blocks(tree):
        for statement in block.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text


_Block = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _blocks(tree: ast.Module) -> Iterator[_Block]:
    """Module, classes and functions, at any depth of the two; statements inside `if` and `try` of a module count."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, _Block):
            yield node
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.excepthandler):
                pending.append(child)


def twice(classes: dict[str, list[str]]) -> Iterator[str]:
    """Findings for the names that more than one class has; `classes`: name to `FILE:LINE` of each definition."""
    for name, places in sorted(classes.items()):
        if len(places) > 1 and name not in TWICE:
            yield (
                f"{places[0]}: class {name} is defined in {', '.join(places[1:])} too; give each meaning a name of "
                "its own, the field's (docs/reference/glossary.md)"
            )
    for name in sorted(TWICE.keys() - {name for name, places in classes.items() if len(places) > 1}):
        yield f"hack/prose.py: TWICE allows class {name}, which is not defined twice; take it out"


def changelog(name: str, text: str) -> Iterator[str]:
    """Findings in a changelog: entries over several lines, and those of more than `MAX_WORDS` words."""
    entry = False
    for line, words in enumerate(text.splitlines(), 1):
        count = len(words.split()) - 1
        if words.startswith("- ") and count > MAX_WORDS:
            yield f"{name}:{line}: an entry of {count} words; say it in {MAX_WORDS}, and the rest on a page it links to"
        if entry and words.strip() and not words.startswith(("- ", "#")):
            yield f"{name}:{line}: an entry goes on here; keep it on one line, and the rest on a page it links to"
        entry = words.startswith("- ")


if __name__ == "__main__":
    sys.exit(main())
