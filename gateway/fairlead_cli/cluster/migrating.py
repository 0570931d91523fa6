"""`fairlead migrate`: rewrites manifests of earlier releases to the current fields, keeping comments and order."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

from fairlead_api.migration import migrate
from fairlead_cli.failure import USAGE_ERROR, Failure, needs
from fairlead_cli.read_only import refuse_read_only

_SEPARATOR: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_ITEM: Final = re.compile(r"^( *)(?:- )?[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*#[^\n]*\n)*( *)- ", re.MULTILINE)


def migrate_files(files: Sequence[Path], *, in_place: bool) -> None:
    """Rewrite each file, or write all to standard output. Changes are reported on standard error. Raises Failure.

    All files are read and migrated before the first is written.
    """
    results = [(file, *_rewrite(file)) for file in files]
    for file, _, changes in results:
        if in_place and changes:
            refuse_read_only(file)
    for file, text, changes in results:
        for change in changes:
            print(f"{file}: {change}", file=sys.stderr)
        if not changes:
            print(f"{file}: already current", file=sys.stderr)
        if not in_place:
            sys.stdout.write(text)
        elif changes:
            _replace(file, text)


def _replace(file: Path, text: str) -> None:
    """Replace the file by a rename, so that a full disk leaves the old file."""
    temporary = file.with_name(f".{file.name}.new")
    try:
        temporary.write_text(text, "utf-8")
        temporary.chmod(file.stat().st_mode)
        temporary.replace(file.resolve())
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error


def _rewrite(file: Path) -> tuple[str, list[str]]:
    try:
        text = file.read_text("utf-8")
        if file.suffix == ".json":
            return _json(text)
        return _yaml(text)
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror or error}", code=USAGE_ERROR) from error
    except (ValueError, RecursionError) as error:  # also for text that is not UTF-8, JSON or YAML
        details = " ".join(str(error).split())
        hint = "an mcp.json needs no migration" if file.suffix == ".json" else "render templates first"
        message = f"{file} cannot be read: {details}; {hint}"
        raise Failure(message, code=USAGE_ERROR) from error


def _json(text: str) -> tuple[str, list[str]]:
    document = json.loads(text)
    changes = migrate(document)
    indent = re.search(r"^[{\[]\s*\n([ \t]+)", text)
    width: int | str | None = indent.group(1) if indent else 2
    return (json.dumps(document, indent=width, ensure_ascii=False) + "\n" if changes else text), changes


def _yaml(text: str) -> tuple[str, list[str]]:
    """Migrate each document on its own, so that a document that needs no change stays unchanged byte for byte."""
    notes: list[str] = []
    parts = [_document(part, notes) for part in _split_documents(text)]
    return "".join(parts), notes


def _split_documents(text: str) -> Iterator[str]:
    """The documents and the separators between them."""
    end = 0
    for match in _SEPARATOR.finditer(text):
        yield text[end : match.start()]
        yield match.group()
        end = match.end()
    yield text[end:]


def _document(text: str, notes: list[str]) -> str:
    if not text.strip() or text == "---":
        return text
    load, dump = _round_trip(text)
    document = load(text)
    changes = migrate(document)
    notes.extend(changes)
    if not changes:
        return text
    head = text[: len(text) - len(text.lstrip("\r\n"))]
    return head + dump(document)


def _round_trip(text: str) -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    """A parser and a writer that keep comments, quotes, and the text's indentation of lists."""
    with needs("up"):
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 10_000
    item = _ITEM.search(text)
    offset = max(0, len(item.group(2)) - len(item.group(1))) if item else 2
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)

    def load(content: str) -> Any:
        try:
            return yaml.load(content)
        except YAMLError as error:
            raise ValueError(str(error)) from error

    def dump(content: Any) -> str:
        output = StringIO()
        yaml.dump(content, output)
        return output.getvalue()

    return load, dump
