"""Checks names and prose in Python files and in CHANGELOG.md, by rules that a program can apply. Run from `hack/check`.

Prints `FILE:LINE: what is wrong; what to write instead` per finding and exits with 1 when there is one.

Rules:

- A docstring opens with a noun or a verb, never with a word that leans on a neighbouring line.
- It does not claim who calls its function or makes its object: tests and imports say that, and stay true.
- A name of code in backticks is in the tree outside of docstrings too: a docstring follows when its name changes.
- The party is named: no text of a docstring says "whoever".
- A class name has one definition in all packages.
- In the folders of `CLEAN` no identifier is one of `RETIRED`, and no line says that something "is no" other thing.
- The name of a test is a sentence about something that can be searched: it does not begin with a pronoun.
- An entry of the changelog is one line of at most 25 words.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from sourcefiles import report, source_files

FOLDERS = ("crds", "operator", "gateway", "hack", "tests")
PACKAGES = ("crds", "operator", "gateway")
"""Subset of `FOLDERS` whose classes need unique names: shipped code."""
CLEAN = (
    "crds",
    "operator",
    "gateway/fairlead_app",
    "gateway/fairlead_authorization",
    "gateway/fairlead_cli",
    "gateway/fairlead_client",
    "gateway/fairlead_console",
    "gateway/fairlead_formats",
    "gateway/fairlead_gateway",
    "gateway/fairlead_kube",
    "gateway/fairlead_llm",
    "gateway/fairlead_mcp",
    "gateway/fairlead_models",
    "gateway/fairlead_offers",
    "gateway/fairlead_openapi",
    "gateway/fairlead_rest",
    "gateway/fairlead_search",
    "gateway/fairlead_servers",
    "gateway/fairlead_speech",
    "gateway/fairlead_tools",
    "gateway/fairlead_otel",
    "gateway/fairlead_web",
    "hack",
    "tests",
)
"""Folders without identifiers in `RETIRED`. Cleaned folders are added."""
RETIRED = frozenset(
    (
        "asked",
        "book",
        "ears",
        "found",
        "frame",
        "it",
        "kept",
        "known",
        "news",
        "one",
        "pictures",
        "place",
        "rhythm",
        "said",
        "shelf",
        "wiring",
    )
)
"""Names that do not say what a thing is. They count also with underscores around them. Longer names that contain one of
them are allowed, because another word carries the meaning."""
DOCUMENTED = {
    ("gateway/fairlead_formats/registry.py", "known"): "attribute of UnknownFormat, on the page of fairlead_client",
}
"""Retired identifiers that remain, with the reason: users' programs contain them."""
TWICE = {
    "Server": "documented import of fairlead_client, and the word of MCP for what a catalog has",
    "Settings": "operator and gateway are two processes, each with the object that pydantic and Django call this",
    "Tool": "documented import of fairlead_client, and the word of MCP for what a server lists",
}
"""Class names that may be defined more than once, with the reason."""
OTHER_PROJECTS = frozenset(
    (
        "FunctionDefinition",
        "FunctionToolParam",
        "ServerCapabilities",
        "ToolConfiguration",
        "ToolParam",
        "libnpmexec",
        "retainKeys",
    )
)
"""Names in backticks from other projects: SDKs of providers, MCP's schema, npm, Kubernetes."""
NAME = re.compile(r"`([A-Za-z_][A-Za-z0-9_.]*)(?:\(\))?`")
TEXTS = (".md", ".yaml", ".yml", ".toml", ".json")
"""Suffixes of other files that may contain a name: pages, manifests, values, projects."""
MAX_WORDS = 25
OPENINGS = re.compile(r"(Of|Once|The same|See the \w+|Whose|What)\b")
CLAIMS = re.compile(r"\b(?:used|called) by\b|(?:^|(?<=[.;] ))(?:made|told|asked) by\b", re.IGNORECASE | re.MULTILINE)
WHOEVER = re.compile(r"\bwhoever\b", re.IGNORECASE)
NEGATION = re.compile(r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b|bigger\b)|\banew\b", re.IGNORECASE)
"""Negations and adverbs that have to be read twice: "it is no URL", "it is made anew"."""
VAGUE_TEST = re.compile(
    r"test_(?:everything|it|neither|nobody|none|nothing|one|somebody|something|that|there|these|this|those|"
    r"what|whatever|who|whoever|whose)_|test_\w*(?<!_there)_(?:is|are)_no_(?!longer_|more_)|"
    r"test_\w*(?:_anew|whoever)(?:_|\b)"
)
"""Names of tests that begin with a pronoun or contain such a negation."""
OWN_WORDS = ("hack/prose.py", "hack/test_prose.py")
"""Files that contain the forbidden words because they define or test these rules."""


def main() -> int:
    """Print all findings of the working directory, and return the exit code of the program."""
    return report(chain(read_tree(Path()), changelog("CHANGELOG.md", Path("CHANGELOG.md").read_text())))


def read_tree(root: Path) -> Iterator[str]:
    """Findings in all Python files below `root`, in the order of their paths."""
    classes: dict[str, list[str]] = {}
    uses: Counter[str] = Counter()
    named: list[tuple[str, int, str]] = []
    for file in source_files(root, FOLDERS):
        yield from prose(*file)
        uses.update(re.findall(r"\w+", file.text))
        for line, docstring in docstrings(file.tree):
            uses.subtract(re.findall(r"\w+", docstring))
            if file.name.partition("/")[0] in PACKAGES:
                named += [(file.name, line, name) for name in NAME.findall(docstring)]
        if file.name.startswith(tuple(f"{package}/" for package in CLEAN)):
            yield from retired(file.name, file.tree)
            yield from vague_tests(file.name, file.tree)
            yield from negations(file.name, file.text)
        if file.name.partition("/")[0] in PACKAGES:
            for node in _blocks(file.tree):
                if isinstance(node, ast.ClassDef):
                    classes.setdefault(node.name, []).append(f"{file.name}:{node.lineno}")
    yield from twice(classes)
    for folder in (*FOLDERS, "charts", "docs", "examples"):
        for path in (root / folder).rglob("*"):
            if path.suffix in TEXTS and "node_modules" not in path.parts:
                uses.update(re.findall(r"\w+", path.read_text("utf-8")))
    yield from stale(named, uses)


def stale(named: list[tuple[str, int, str]], uses: Counter[str]) -> Iterator[str]:
    """Findings for names that occur only in docstrings. `named`: file, line, name; `uses`: words outside of
    docstrings.
    """
    for file, line, name in named:
        if missing := [part for part in name.split(".") if part and uses[part] <= 0 and part not in OTHER_PROJECTS]:
            yield f"{file}:{line}: `{name}`: the tree has no {missing[0]}; write the name that it has now"


def retired(name: str, tree: ast.Module) -> Iterator[str]:
    """Findings in the identifiers that one file defines: variables, parameters, attributes, functions and classes."""
    for line, identifier in sorted(set(identifiers(tree))):
        if identifier.strip("_") in RETIRED and (name, identifier) not in DOCUMENTED:
            yield f'{name}:{line}: "{identifier}" is a retired name; say what it holds, or what the function does'


def vague_tests(name: str, tree: ast.Module) -> Iterator[str]:
    """Findings in the names of the tests of one file."""
    functions = [block for block in _blocks(tree) if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in sorted(functions, key=lambda function: function.lineno):
        if VAGUE_TEST.match(function.name):
            yield (
                f"{name}:{function.lineno}: {function.name}; begin with what can be searched: a class, a verb, a "
                "method of MCP, a term of the field"
            )


def negations(name: str, text: str) -> Iterator[str]:
    """Findings in the lines of one file, comments and messages included."""
    for line, words in enumerate(text.splitlines(), 1):
        if not name.endswith(OWN_WORDS) and (negation := NEGATION.search(words)):
            yield f'{name}:{line}: "{negation[0].strip()}"; write "is not a …", "again", or what it is instead'


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each name that a file defines, without imported names."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.Name(id=identifier, ctx=ast.Store()) | ast.Attribute(attr=identifier, ctx=ast.Store()):
                yield node.lineno, identifier
            case ast.arg(arg=identifier):
                yield node.lineno, identifier
            case (
                ast.MatchAs(name=str(identifier))
                | ast.MatchStar(name=str(identifier))
                | ast.ExceptHandler(name=str(identifier))
            ):
                yield node.lineno, identifier


def prose(name: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Findings in the docstrings and words of one file."""
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
            if WHOEVER.search(words) and not name.endswith(OWN_WORDS):
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
    """Findings for names of more than one class. `classes`: name to `FILE:LINE` of each definition."""
    for name, places in sorted(classes.items()):
        if len(places) > 1 and name not in TWICE:
            yield (
                f"{places[0]}: class {name} is defined in {', '.join(places[1:])} too; give each meaning a name of "
                "its own, the field's (docs/reference/glossary.md)"
            )
    for name in sorted(TWICE.keys() - {name for name, places in classes.items() if len(places) > 1}):
        yield f"hack/prose.py: TWICE allows class {name}, which is not defined twice; take it out"


def changelog(name: str, text: str) -> Iterator[str]:
    """Findings in a changelog: entries of several lines, and entries of more than `MAX_WORDS` words."""
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
