"""One configuration file of an MCP client: its entries as validated McpServers, or why not, with the line.

`clientconfig` knows the forms; this module knows files, lines and validation. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fairlead_api.clientconfig import (
    ConfiguredServer,
    EntryProblem,
    Translated,
    entries,
    in_words_of,
    is_client_configuration,
    list_of,
    translate,
)
from fairlead_api.clientkeys import LISTS, list_meant
from fairlead_api.jsondocuments import JsonDocument, UnreadableJson, parse_json
from fairlead_api.load import ManifestProblem
from fairlead_api.problems import complaints
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.yamldocuments import BadDocument, Document, documents
from fairlead_operator.local.inventory import DeclaredServer

EXAMPLE: Final = '"time": {"command": "uvx", "args": ["mcp-server-time"]}'
EMPTY_FILE: Final = f'is empty: write {{"mcpServers": {{{EXAMPLE}}}}} into it, or a manifest of an McpServer'
EMPTY_LIST: Final = f"is empty: add a server, such as {EXAMPLE}"
NO_LIST: Final = f'declares no server: a client configuration begins with {{"mcpServers": {{{EXAMPLE}}}}}'


@dataclass
class Configuration:
    """Servers and problems of one client configuration."""

    servers: list[DeclaredServer] = field(default_factory=list)
    problems: list[ManifestProblem] = field(default_factory=list)
    remarks: list[ManifestProblem] = field(default_factory=list)
    """Remarks that stop no server."""


def read_configuration(
    text: str, file: Path, environ: Mapping[str, str], is_own: Callable[[str], bool]
) -> Configuration | None:
    """Read a client configuration; None for a file that is something else. JSON that is broken is a problem, too."""
    try:
        document = parse_json(text) if file.suffix == ".json" else _only_document(text)
    except UnreadableJson as error:
        if _are_manifests(text):
            return None
        problem = ManifestProblem(str(file), error.line, "", f"not valid JSON: {error}", error.column)
        return Configuration(problems=[problem])
    if document is None:
        return Configuration(remarks=[ManifestProblem(str(file), 0, "", EMPTY_FILE)]) if _is_blank(text, file) else None
    content = document.content
    if is_client_configuration(content):
        return _read(content, document, file, environ, is_own)
    wrong = _no_list(content, json=file.suffix == ".json")
    if wrong is None:
        return None
    key, message = wrong
    return Configuration(problems=[ManifestProblem(str(file), document.line_of((key,)) if key else 0, key, message)])


def _only_document(text: str) -> Document | None:
    """The document of a YAML file that holds one, and that is valid."""
    parsed = list(documents(text))
    document = parsed[0] if len(parsed) == 1 else None
    return None if isinstance(document, BadDocument) else document


def _are_manifests(text: str) -> bool:
    """Whether what is no JSON is YAML for `kubectl` all the same."""
    parsed = list(documents(text))
    return bool(parsed) and all(
        isinstance(one, Document) and isinstance(one.content, Mapping) and "kind" in one.content for one in parsed
    )


def _is_blank(text: str, file: Path) -> bool:
    return file.suffix == ".json" or not list(documents(text))


def _no_list(content: object, *, json: bool) -> tuple[str, str] | None:
    """Key and message for a file that is no server list but should be one; None for what is something else."""
    if not isinstance(content, Mapping):
        return ("", NO_LIST) if json else None
    if "kind" in content or "apiVersion" in content:
        return None
    if LISTS[0] in content:
        if content[LISTS[0]] is None:
            return LISTS[0], EMPTY_LIST
        return LISTS[0], f"must be an object of names and servers, such as {{{EXAMPLE}}}"
    if not json:
        return None
    if "servers" in content:
        return "servers", f"must be an object of names and servers, such as {{{EXAMPLE}}}"
    meant = list_meant(content)
    if meant is not None:
        return meant, "unknown key: did you mean mcpServers?"
    return "", NO_LIST


def _read(
    content: Mapping[str, Any],
    document: Document | JsonDocument,
    file: Path,
    environ: Mapping[str, str],
    is_own: Callable[[str], bool],
) -> Configuration:
    configuration = Configuration()
    names: dict[str, str] = {}
    for entry in entries(content):
        try:
            declared = _declared(entry, document, file, environ, is_own, configuration)
            if declared is None:
                continue
            name = declared.server.metadata.name
            first = names.setdefault(name, entry.name)
            if first is not entry.name:
                raise EntryProblem("", f"its name comes to {name}, as that of {first} does: rename one")
        except EntryProblem as problem:
            configuration.problems.append(_problem(entry, problem.field, str(problem), document, file))
        else:
            configuration.servers.append(declared)
    configuration.remarks += _of_the_list(content, document, file, configuration)
    return configuration


def _declared(
    entry: ConfiguredServer,
    document: Document | JsonDocument,
    file: Path,
    environ: Mapping[str, str],
    is_own: Callable[[str], bool],
    configuration: Configuration,
) -> DeclaredServer | None:
    """The server of an entry; None for this gateway itself. Adds remarks. Raises EntryProblem."""
    translated = translate(entry, environ)
    url = translated.manifest["spec"].get("url")
    if url is not None and is_own(url):
        return None
    server = _validated(entry, translated)
    for remark in translated.remarks:
        configuration.remarks.append(_problem(entry, remark.key, remark.message, document, file))
    cwd = None if translated.cwd is None else str((file.parent / translated.cwd).expanduser().resolve())
    return DeclaredServer(server, translated.credential, cwd, f"{file}:{document.line_of(entry.path)}")


def _of_the_list(
    content: Mapping[str, Any], document: Document | JsonDocument, file: Path, found: Configuration
) -> list[ManifestProblem]:
    """Remarks about the list as a whole and about duplicate keys."""
    told = []
    member = list_of(content)
    listed = len(content[member])
    line = document.line_of((member,))
    if not listed:
        told.append(ManifestProblem(str(file), line, member, EMPTY_LIST))
    elif not any(True for _ in entries(content)):
        servers = "its server is" if listed == 1 else f"all of its {listed} servers are"
        told.append(ManifestProblem(str(file), line, member, f"{servers} disabled: remove disabled: true from one"))
    elif not found.servers and not found.problems:
        told.append(ManifestProblem(str(file), line, member, "the only server is this gateway itself: add another"))
    if member == LISTS[0] and isinstance(content.get(LISTS[1]), Mapping):
        other = document.line_of((LISTS[1],))
        told.append(
            ManifestProblem(str(file), other, LISTS[1], f"is not read beside {member}: keep all servers in one of them")
        )
    for twice in document.twice if isinstance(document, JsonDocument) else ():
        path = ".".join(str(step) for step in twice.place if step != "\0")
        message = f"stands in line {twice.first_line} already, and this one is left out: rename or remove one"
        told.append(ManifestProblem(str(file), twice.line, path, message))
    return told


def _problem(
    entry: ConfiguredServer, inner: str, message: str, document: Document | JsonDocument, file: Path
) -> ManifestProblem:
    line = document.line_of((*entry.path, *_steps(inner)))
    return ManifestProblem(str(file), line, _path(entry, inner), message)


def _validated(entry: ConfiguredServer, translated: Translated) -> McpServer:
    try:
        return McpServer.model_validate(translated.manifest)
    except ValidationError as error:
        raise in_words_of(entry, complaints(error, McpServer)[0]) from error


def _path(entry: ConfiguredServer, inner: str) -> str:
    member, step = entry.path
    outer = f"{member}[{step}]" if isinstance(step, int) and not entry.name else f"{member}.{entry.name}"
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
