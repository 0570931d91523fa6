"""One configuration file of an MCP client: its entries as validated McpServers, or why not, with the line.

Used by `sources`. `clientconfig` knows the forms; this module knows files, lines and validation. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fairlead_api.clientconfig import (
    Entry,
    EntryProblem,
    Translated,
    entries,
    is_client_configuration,
    translate,
)
from fairlead_api.load import Problem
from fairlead_api.problems import complaints
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.yamldocuments import BadDocument, Document, documents
from fairlead_operator.local.inventory import DeclaredServer

_COMMENT_LINE: Final = re.compile(r"^\s*//.*$", re.MULTILINE)


@dataclass
class Configuration:
    """What a client configuration comes to."""

    servers: list[DeclaredServer] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_configuration(
    text: str, file: Path, environ: Mapping[str, str], is_own: Callable[[str], bool]
) -> Configuration | None:
    """Read a client configuration; None for a file that is something else. JSON that is broken is a problem, too."""
    json_file = file.suffix == ".json"
    # Tabs and lines of comment are no YAML; JSON has tabs, and editors allow the comments.
    readable = _COMMENT_LINE.sub("", text).replace("\t", " ") if json_file else text
    parsed = list(documents(readable))
    if len(parsed) != 1:
        return None
    document = parsed[0]
    if isinstance(document, BadDocument):
        if not json_file:
            return None
        message = document.message.replace("not valid YAML", "not valid JSON")
        return Configuration(problems=[Problem(str(file), document.line, "", message)])
    content = _as_json(text, document)
    if not is_client_configuration(content):
        return None
    return _read(content, document, file, environ, is_own)


def _as_json(text: str, document: Document) -> Any:
    """The content by the rules of JSON where it is JSON: YAML reads some of its escapes differently."""
    try:
        return json.loads(text)
    except ValueError:
        return document.content


def _read(
    content: Mapping[str, Any],
    document: Document,
    file: Path,
    environ: Mapping[str, str],
    is_own: Callable[[str], bool],
) -> Configuration:
    configuration = Configuration()
    names: dict[str, str] = {}
    for entry in entries(content):
        line = document.line_of(entry.path)
        try:
            translated = translate(entry, environ)
            url = translated.manifest["spec"].get("url")
            if url is not None and is_own(url):
                continue
            server = _validated(translated)
            first = names.setdefault(server.metadata.name, entry.name)
            if first is not entry.name:
                raise EntryProblem("", f"its name comes to {server.metadata.name}, as that of {first} does: rename one")
        except EntryProblem as problem:
            line = document.line_of((*entry.path, *_steps(problem.field)))
            configuration.problems.append(Problem(str(file), line, _path(entry, problem.field), str(problem)))
        else:
            cwd = None if translated.cwd is None else str((file.parent / translated.cwd).expanduser().resolve())
            declared = DeclaredServer(server, translated.credential, cwd, f"{file}:{line}")
            configuration.servers.append(declared)
    return configuration


def _validated(translated: Translated) -> McpServer:
    try:
        return McpServer.model_validate(translated.manifest)
    except ValidationError as error:
        first = complaints(error, McpServer)[0]
        raise EntryProblem(first.field.removeprefix("spec."), first.message) from error


def _path(entry: Entry, inner: str) -> str:
    member, step = entry.path
    outer = f"{member}[{step}]" if isinstance(step, int) else f"{member}.{step}"
    return f"{outer}.{inner}" if inner else outer


def _steps(path: str) -> list[str | int]:
    """`env.TOKEN` and `args[1]` as steps."""
    steps: list[str | int] = []
    for part in filter(None, path.split(".")):
        name, bracket, index = part.partition("[")
        steps.append(name)
        if bracket:
            steps.append(int(index.rstrip("]")))
    return steps
