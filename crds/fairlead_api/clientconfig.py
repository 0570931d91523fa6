"""The server lists of MCP clients to McpServers: one entry in, one resource and its credential out. Pure.

Three forms are read: `{"mcpServers": {NAME: …}}` (most clients), `{"servers": {NAME: …}}` (VS Code), and the list
`mcpServers: [{id: NAME, …}]`. Values of `env`, of `headers` and of `apiKey` go into the credential and never into the
resource. The key `fairlead` holds fields of the spec that no client has. Keys that only concern a client (`disabled`
excepted) are ignored, as the clients do among each other; slips and keys that nobody knows are told of (`clientkeys`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead_api.clientkeys import LISTS, OF_URLS, OWN, OWN_FIELDS, TRANSPORTS, URLS, Remark, remarks
from fairlead_api.documents.catalog import Credential
from fairlead_api.interpolation import UnsetVariable, interpolate
from fairlead_api.meta import ANNOTATION_FORM, API_VERSION, CLIENT_CONFIGURATION, short_hash
from fairlead_api.problems import Complaint

NAMESPACE: Final = "default"
_NAME_LIMIT: Final = 50
_TRANSPORTS: Final = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamablehttp": "streamable-http",
    "streamable_http": "streamable-http",
}

_INPUT: Final = re.compile(r"\$\{(?:input|command):")
"""Placeholders for values that an editor asks its user for."""
_ARGUMENT: Final = re.compile(r"command\[([0-9]+)\]")


class EntryProblem(ValueError):
    """An entry that cannot be served."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        """Path within the entry, such as `env.TOKEN`; empty for the entry as a whole."""


@dataclass(frozen=True)
class ConfiguredServer:
    """One server as a configuration names it."""

    name: str
    content: Any
    path: tuple[str | int, ...]
    """Where it stands in the file."""


@dataclass(frozen=True)
class Translated:
    """One entry, translated to a manifest, with what a manifest cannot hold."""

    manifest: dict[str, Any]
    """An McpServer, not validated yet."""
    credential: Credential
    cwd: str | None = None
    """Working directory that the entry asks for, relative to its file."""
    remarks: tuple[Remark, ...] = ()
    """Keys that are not heeded."""


def is_client_configuration(content: object) -> bool:
    """Whether a parsed file is a server list of one of the three forms."""
    if not isinstance(content, Mapping) or "kind" in content:
        return False
    return isinstance(content.get("mcpServers"), Mapping | list) or isinstance(content.get("servers"), Mapping)


def list_of(content: Mapping[str, Any]) -> str:
    """The key of a file under which its servers stand."""
    return next((name for name in LISTS if name in content), LISTS[0])


def entries(content: Mapping[str, Any]) -> Iterator[ConfiguredServer]:
    """The entries of a server list, in its order; disabled ones are left out."""
    member = list_of(content)
    listed = content[member]
    named: Iterator[tuple[str, str | int, Any]]
    if isinstance(listed, Mapping):
        named = ((str(name), str(name), entry) for name, entry in listed.items())
    else:
        named = ((_identifier(entry), index, entry) for index, entry in enumerate(listed))
    for name, step, entry in named:
        if not (isinstance(entry, Mapping) and (entry.get("disabled") is True or entry.get("enabled") is False)):
            yield ConfiguredServer(name, entry, (member, step))


def resource_name(name: str) -> str:
    """`name` as the name of an McpServer; equal names give equal ones, and what had to be cut ends in a hash."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not label or not label[0].isalpha():
        label = f"server-{label}".rstrip("-")
    if len(label) > _NAME_LIMIT:
        label = f"{label[: _NAME_LIMIT - 11].rstrip('-')}-{short_hash(name)}"
    return label


def translate(entry: ConfiguredServer, environ: Mapping[str, str]) -> Translated:
    """Read one entry with `${NAME}` filled in from `environ`. Raises EntryProblem for what cannot be served."""
    content = entry.content
    if not isinstance(content, Mapping):
        raise EntryProblem("", "must be an object with command, or with url")
    if not entry.name:
        raise EntryProblem("id", "is missing: it names the server")
    found = tuple(remarks(content))
    for remark in found:
        if remark.stops:
            raise EntryProblem(remark.key, remark.message)
    read = _EntryReader(content, environ)
    command, (_, url) = read.path("command"), read.first(URLS)
    if command is not None and not command.strip():
        raise EntryProblem("command", "is empty: it names the program that is the server")
    if (command is None) == (url is None):
        raise EntryProblem("", "needs command, for a local server, or url, for a remote one, and not both")
    transport = _transport(*read.first(TRANSPORTS), remote=url is not None)
    if url is not None:
        spec: dict[str, Any] = {"url": url, "remote": {"transport": transport}}
        credential = Credential(headers=_headers(read))
    else:
        spec = {"command": [command, *read.texts("args")]}
        credential = Credential(env=read.mapping("env"))
    _add_own(spec, _own(content.get(OWN)))
    metadata = {
        "name": resource_name(entry.name),
        "namespace": NAMESPACE,
        "annotations": {ANNOTATION_FORM: CLIENT_CONFIGURATION},
    }
    manifest = {"apiVersion": API_VERSION, "kind": "McpServer", "metadata": metadata, "spec": spec}
    return Translated(manifest, credential, read.path("cwd"), found)


def in_words_of(entry: ConfiguredServer, complaint: Complaint) -> EntryProblem:
    """Translate a validation error of an entry's McpServer into the keys of the entry."""
    field = complaint.field.removeprefix("spec.")
    field = field.removeprefix("remote.")
    if field == "remote":  # the rule about it is one of caBundle, as remote stands beside url alone
        field = "caBundle"
    if field == "command[0]":
        field = "command"
    elif field == "command" and complaint.message.startswith("should have at most"):
        field = "args"
    elif match := _ARGUMENT.fullmatch(field):
        field = f"args[{int(match[1]) - 1}]"
    if field.partition(".")[0].partition("[")[0] in OWN_FIELDS:
        field = f"{OWN}.{field}"
    for known in (URLS, TRANSPORTS):
        if field == known[0] and isinstance(entry.content, Mapping):
            field = next((name for name in known if name in entry.content), field)
    return EntryProblem(
        field, complaint.message.replace("a credential goes into auth", "a credential goes into headers")
    )


def _add_own(spec: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Put the fields under `fairlead` where a spec has them."""
    for name, value in own.items():
        if name not in OF_URLS:
            spec[name] = value
        elif "remote" in spec:
            spec["remote"][name] = value
        else:
            raise EntryProblem(f"{OWN}.{name}", "goes with url")


def _own(fields: object) -> dict[str, Any]:
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise EntryProblem(OWN, "must be an object of fields, such as prefix or session")
    for name in fields:
        if name not in OWN_FIELDS:
            raise EntryProblem(f"{OWN}.{name}", f"is no field of it; known are {', '.join(OWN_FIELDS)}")
    return dict(fields)


def _identifier(entry: object) -> str:
    if not isinstance(entry, Mapping):
        return ""
    found = entry.get("id") or entry.get("name")
    return found if isinstance(found, str) else ""


def _transport(key: str, named: str | None, *, remote: bool) -> str:
    if named is None:
        return "streamable-http" if remote else "stdio"
    known = _TRANSPORTS.get(named.lower())
    if known is None:
        raise EntryProblem(key, f"{named!r} is none of stdio, sse, streamable-http")
    if (known != "stdio") != remote:
        wants = "command" if known == "stdio" else "url"
        raise EntryProblem(key, f"{named!r} goes with {wants}")
    return known


def _headers(read: _EntryReader) -> dict[str, str]:
    headers = read.mapping("headers")
    key = read.text("apiKey")
    if key is None:
        return headers
    if any(name.lower() == "authorization" for name in headers):
        raise EntryProblem("apiKey", "is sent as Authorization, which headers sets too: keep one of them")
    return {**headers, "Authorization": f"Bearer {key}"}


class _EntryReader:
    """Typed access to the members of an entry, references filled in."""

    def __init__(self, content: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._content = content
        self._environ = environ

    def text(self, field: str) -> str | None:
        value = self._content.get(field)
        return None if value is None else self._fill(field, value)

    def first(self, fields: Sequence[str]) -> tuple[str, str | None]:
        """The first of some keys that mean the same, with its value."""
        for field in fields:
            if value := self.text(field):
                return field, value
        return fields[0], None

    def path(self, field: str) -> str | None:
        """A text in which a leading `~/` is the home folder, as in a shell."""
        value, home = self.text(field), self._environ.get("HOME")
        return home + value[1:] if value is not None and home and (value == "~" or value.startswith("~/")) else value

    def texts(self, field: str) -> list[str]:
        value = self._content.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise EntryProblem(field, "must be a list of texts")
        return [self._fill(f"{field}[{index}]", item) for index, item in enumerate(value)]

    def mapping(self, field: str) -> dict[str, str]:
        value = self._content.get(field)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise EntryProblem(field, "must be an object of names and texts")
        return {str(name): self._fill(f"{field}.{name}", item) for name, item in value.items()}

    def _fill(self, field: str, value: object) -> str:
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, int | float):
            value = str(value)
        if field == "command" and isinstance(value, list):
            raise EntryProblem(field, "must be one program, as a text; its arguments go into args")
        if not isinstance(value, str):
            raise EntryProblem(field, "must be a text")
        if _INPUT.search(value):
            raise EntryProblem(field, "asks for an input of the editor: name an environment variable instead, ${NAME}")
        try:
            return interpolate(value, self._environ)
        except UnsetVariable as error:
            raise EntryProblem(field, str(error)) from error
