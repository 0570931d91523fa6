"""Reads one configuration file of an MCP client: entries become validated McpServers, or problems with line numbers.

`client_files.servers` parses the forms of different clients; this module adds line numbers and validation. The caller
passes the text of the file; the env files that entries name are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fairlead_api.client_files.entry import EntryProblem
from fairlead_api.client_files.env_files import read_env_file, read_secret_file
from fairlead_api.client_files.forms import server_lists
from fairlead_api.client_files.gemini_choice import choice_remarks
from fairlead_api.client_files.keys import LISTS, OWN, misspelt_list_key
from fairlead_api.client_files.servers import (
    NAMESPACE,
    ConfiguredServer,
    Translated,
    entries,
    in_words_of,
    is_client_configuration,
    lost_letters,
    resource_name,
    surroundings_with_bundle,
    translate,
)
from fairlead_api.client_files.variables import surroundings_of
from fairlead_api.jsondocuments import JsonDocument, UnreadableJson, parse_json
from fairlead_api.load import ManifestProblem, RefusedServer
from fairlead_api.meta import LABEL_CREDENTIAL, ServerKey
from fairlead_api.problems import complaints
from fairlead_api.tomldocuments import TomlDocument, UnreadableToml, parse_toml
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.yamldocuments import BadDocument, Document, documents
from fairlead_operator.local.inventory import DeclaredSecret, DeclaredServer

AnyDocument = Document | JsonDocument | TomlDocument
JSON_SUFFIXES: Final = (".json", ".jsonc", ".json5")
EXAMPLE: Final = '"time": {"command": "uvx", "args": ["mcp-server-time"]}'
EMPTY_FILE: Final = f'is empty: write {{"mcpServers": {{{EXAMPLE}}}}} into it, or a manifest of an McpServer'
EMPTY_NAME: Final = '""'
MAX_NAMED: Final = 8
"""Maximum number of servers that a message names."""
EMPTY_LIST: Final = f"is empty: add a server, such as {EXAMPLE}"
NO_LIST: Final = f'declares no server: a client configuration begins with {{"mcpServers": {{{EXAMPLE}}}}}'


@dataclass
class Configuration:
    """Servers and problems of one client configuration."""

    servers: list[DeclaredServer] = field(default_factory=list)
    problems: list[ManifestProblem] = field(default_factory=list)
    remarks: list[ManifestProblem] = field(default_factory=list)
    """Problems that prevent no server from running."""
    refused_servers: list[RefusedServer] = field(default_factory=list)
    """Named entries with a problem that prevents their server from running."""


def read_configuration(
    text: str, file: Path, environ: Mapping[str, str], is_own: Callable[[str], bool], *, bare: bool = True
) -> Configuration | None:
    """Read a client configuration; None for a file of another kind. Invalid JSON is reported as a problem.

    Args:
        is_own: Returns whether a URL belongs to this gateway; entries with such a URL are skipped.
        bare: Whether a list of servers may be the top-level value, instead of a member such as `mcpServers`.
    """
    try:
        document = _parse(text, file)
    except UnreadableJson as error:
        if _are_manifests(text):
            return None
        problem = ManifestProblem(str(file), error.line, "", f"not valid JSON: {error}", error.column)
        return Configuration(problems=[problem])
    except UnreadableToml as error:
        return Configuration(problems=[ManifestProblem(str(file), error.line, "", f"not valid TOML: {error}")])
    if document is None:
        if not _is_blank(text, file):
            return None
        empty = [ManifestProblem(str(file), 0, "", EMPTY_FILE)]
        # many editors empty a file before they write it; who wants no servers leaves an empty list, or comments
        return Configuration(remarks=empty) if text.strip() else Configuration(problems=empty)
    content = document.content
    if is_client_configuration(content):
        if not bare and server_lists(content)[0].path == ():
            return None
        return _ConfigurationReader(content, document, file, environ, is_own).read()
    key_and_message = _missing_list(content, maybe_manifests=file.suffix not in (*JSON_SUFFIXES, ".toml"))
    if key_and_message is None:
        return None
    key, message = key_and_message
    return Configuration(problems=[ManifestProblem(str(file), document.line_of((key,)) if key else 0, key, message)])


def _parse(text: str, file: Path) -> AnyDocument | None:
    """Parse the file's text by the file's ending; None for YAML with several documents.

    Raises UnreadableJson, UnreadableToml.
    """
    if file.suffix in JSON_SUFFIXES:
        return parse_json(text)
    return parse_toml(text) if file.suffix == ".toml" else _only_document(text)


def _only_document(text: str) -> Document | None:
    """The document of a YAML file with exactly one valid document, else None."""
    parsed_documents = list(documents(text))
    document = parsed_documents[0] if len(parsed_documents) == 1 else None
    return None if isinstance(document, BadDocument) else document


def _are_manifests(text: str) -> bool:
    """Whether a text that is not JSON is YAML with Kubernetes manifests."""
    parsed_documents = list(documents(text))
    return bool(parsed_documents) and all(
        isinstance(document, Document) and isinstance(document.content, Mapping) and "kind" in document.content
        for document in parsed_documents
    )


def _is_blank(text: str, file: Path) -> bool:
    """Whether a text that yielded no usable document is blank, instead of YAML with several documents."""
    return file.suffix in JSON_SUFFIXES or not list(documents(text))


def _missing_list(content: object, *, maybe_manifests: bool) -> tuple[str, str] | None:
    """Key and message about a file that should declare a server list but does not; None for a file of another kind."""
    if not isinstance(content, Mapping):
        return None if maybe_manifests else ("", NO_LIST)
    if "kind" in content or "apiVersion" in content:
        return None
    if LISTS[0] in content:
        if content[LISTS[0]] is None:
            return LISTS[0], EMPTY_LIST
        return LISTS[0], f"must be an object of names and servers, such as {{{EXAMPLE}}}"
    if maybe_manifests:
        return "", f"{NO_LIST}, and a manifest has apiVersion and kind"
    if "servers" in content:
        list_form = ", or a list of servers that each have a name" if isinstance(content["servers"], list) else ""
        return "servers", f"must be an object of names and servers, such as {{{EXAMPLE}}}{list_form}"
    key = misspelt_list_key(content)
    if key == "mcp":
        return key, "contains no servers in a known form: move them into mcpServers, at the same level"
    if key is not None:
        return key, "unknown key: did you mean mcpServers?"
    return "", NO_LIST


class _ConfigurationReader:
    """Reads the server lists of one parsed file."""

    def __init__(
        self,
        content: Mapping[str, Any] | Sequence[Any],
        document: AnyDocument,
        file: Path,
        environ: Mapping[str, str],
        is_own: Callable[[str], bool],
    ) -> None:
        self._content = content
        self._document = document
        self._file = file
        self._environ = environ
        self._is_own = is_own
        path = file.absolute()  # servers may run in another folder than this process
        surroundings = surroundings_of(path, environ.get("HOME"))
        self._surroundings = surroundings_with_bundle(surroundings, content, str(path.parent), environ)
        self._result = Configuration()

    def read(self) -> Configuration:
        unserved_entries: dict[str, list[ConfiguredServer]] = {}
        for entry in entries(self._content):
            try:
                declaration = self._server(entry)
            except EntryProblem as problem:
                if entry.unserved:
                    unserved_entries.setdefault(entry.unserved, []).append(entry)
                else:
                    self._refuse(entry, problem)
            else:
                if declaration is not None:
                    self._result.servers.append(declaration)
        self._result.remarks += [
            self._ignored_note(reason, entries_of_reason) for reason, entries_of_reason in unserved_entries.items()
        ]
        self._result.remarks += self._list_remarks()
        return self._result

    def _ignored_note(self, reason: str, unserved_entries: Sequence[ConfiguredServer]) -> ManifestProblem:
        """A note about entries that only their client can serve."""
        first, *others = unserved_entries
        if not others:
            problem = self._problem(first, "", f"{reason}; it is ignored, and nothing has to be done")
        else:
            names = [entry.name for entry in unserved_entries]
            names_text = ", ".join(names[:MAX_NAMED]) + (
                f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            )
            message = f"each of {names_text} {reason}; they are ignored, and nothing has to be done"
            problem = self._remark(first.path[:-1], message)
        return replace(problem, is_note=True)

    def _refuse(self, entry: ConfiguredServer, error: EntryProblem) -> None:
        problem = self._problem(entry, error.field, str(error))
        self._result.problems.append(problem)
        if entry.name:
            own_settings = entry.content.get(OWN) if isinstance(entry.content, Mapping) else None
            prefix = own_settings.get("prefix") if isinstance(own_settings, Mapping) else None
            key = ServerKey(NAMESPACE, entry.resource or resource_name(entry.name))
            requested_prefix = prefix if isinstance(prefix, str) else None
            self._result.refused_servers.append(
                RefusedServer(key, (problem,), requested_prefix, error.cause, "client-configuration")
            )

    def _server(self, entry: ConfiguredServer) -> DeclaredServer | None:
        """The server of an entry; None if its URL is this gateway's. Appends remarks. Raises EntryProblem."""
        folder_of_file = self._file.parent
        translated = translate(
            entry,
            self._environ,
            self._surroundings,
            lambda name: read_env_file(folder_of_file / name),
            lambda name: read_secret_file(folder_of_file / name),
        )
        url = translated.manifest["spec"].get("url")
        if url is not None and self._is_own(url):
            return None
        server = _validate(entry, translated)
        # servers of several projects may share a name
        if entry.cwd is None and (name := resource_name(entry.name)) != server.key.name:
            message = f"gets the name {server.key.name}, because another server has the name {name}: rename one of them"
            self._result.remarks.append(self._problem(entry, "", message))
        elif lost_letters(entry.name):
            message = f"is called {server.key.name}, because the name of a server has only a to z, digits and hyphens"
            self._result.remarks.append(replace(self._problem(entry, "", message), is_note=True))
        for remark in translated.remarks:
            self._result.remarks.append(self._problem(entry, remark.key, remark.message))
        folder = translated.cwd
        # if the project was moved, its folder is missing: start the server in the default folder
        if folder is None and entry.cwd and Path(entry.cwd).is_dir():
            folder = entry.cwd
        cwd = None if folder is None else str((self._file.parent / folder).expanduser().resolve())
        origin = f"{self._file}:{self._document.line_of(entry.path)}"
        return DeclaredServer(server, translated.credential, cwd, origin, _own_secret(server, translated))

    def _list_remarks(self) -> Iterator[ManifestProblem]:
        """Remarks about the lists as a whole and about duplicate keys."""
        lists = server_lists(self._content)
        first_path = lists[0].path
        server_count = sum(len(servers.servers) for servers in lists)
        content = self._content if isinstance(self._content, Mapping) else {}
        choices = list(choice_remarks(content))
        for choice, message in choices:
            yield self._remark(choice, message)
        if not server_count:
            if not choices:
                yield self._remark(first_path, EMPTY_LIST)
        elif not any(True for _ in entries(self._content)):
            servers = "its only server is" if server_count == 1 else f"all of its {server_count} servers are"
            yield self._remark(first_path, f"{servers} disabled: remove `disabled` or `enabled` from a server's entry")
        elif not self._result.servers and not self._result.problems and not self._result.remarks:
            yield self._remark(first_path, "the only server is this gateway itself: add another")
        if LISTS[0] in content and isinstance(content.get(LISTS[1]), Mapping | list):
            yield self._remark((LISTS[1],), f"is ignored because the file has {LISTS[0]} as well: use only one of them")
        for duplicate in self._document.repeated if isinstance(self._document, JsonDocument) else ():
            path = ".".join(str(step) for step in duplicate.path if step != "\0")
            message = f"is a duplicate of line {duplicate.first_line}, so it is ignored: rename or remove one of them"
            yield ManifestProblem(str(self._file), duplicate.line, path, message)

    def _remark(self, path: Sequence[str | int], message: str) -> ManifestProblem:
        line = self._document.line_of(path)
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return ManifestProblem(str(self._file), line, "".join(steps).lstrip("."), message)

    def _problem(self, entry: ConfiguredServer, member_path: str, message: str) -> ManifestProblem:
        member_path = _as_written(entry, member_path)
        line = self._document.line_of((*entry.path, *_steps(member_path)))
        return ManifestProblem(str(self._file), line, _path(entry, member_path), message)


def _as_written(entry: ConfiguredServer, member_path: str) -> str:
    """The path `member_path` within an entry, with the keys of the client's file.

    If the client has another name for the first key, the result is that name alone, because the structure inside may
    differ too.
    """
    member = member_path.partition(".")[0].partition("[")[0]
    original = entry.original_keys.get(member_path) or entry.original_keys.get(member)
    return member_path if original is None else original


def _own_secret(server: McpServer, translated: Translated) -> DeclaredSecret | None:
    """A Secret with the secrets that the entry itself contains; None if it contains none."""
    if not translated.secrets:
        return None
    return DeclaredSecret(server.key.namespace, server.key.name, translated.secrets, {LABEL_CREDENTIAL: "true"})


def _validate(entry: ConfiguredServer, translated: Translated) -> McpServer:
    """The McpServer of an entry. Raises EntryProblem, which names the keys of the client's file."""
    try:
        return McpServer.model_validate(translated.manifest)
    except ValidationError as error:
        raise in_words_of(entry, complaints(error, McpServer)[0]) from error


def _path(entry: ConfiguredServer, member_path: str) -> str:
    """Path of an entry, or of its member `member_path`, for a message, such as `mcpServers.time.env`."""
    *members, step = entry.path
    entry_path = ".".join(map(str, members))
    if isinstance(step, int) and not entry.name:
        entry_path = f"{entry_path}[{step}]"
    else:
        entry_path = f"{entry_path}.{entry.name or EMPTY_NAME}".lstrip(".")
    return f"{entry_path}.{member_path}" if member_path else entry_path


def _steps(path: str) -> list[str | int]:
    """Split a path such as `env.TOKEN` or `args[1]` into keys and indexes."""
    steps: list[str | int] = []
    for part in filter(None, path.split(".")):
        name, bracket, index = part.partition("[")
        steps.append(name)
        if bracket:
            steps.append(int(index.rstrip("]")))
    return steps
