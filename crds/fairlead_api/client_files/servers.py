"""Translation of MCP clients' server lists: each entry becomes one McpServer and its credential.

`forms` finds the server list in each client's file, and renames the keys of entries to the keys of `mcpServers`.
`variables` resolves each client's variable syntax. Values of `env`, of `headers` and of `apiKey` go into the
credential, never into the resource. The key `fairlead` of an entry holds fields of the McpServer's spec for which
clients have no key. Keys that concern only the client are ignored; misspelt and unknown keys are reported (`keys`).
This module has no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead_api.client_files.entry import EntryProblem, EntryReader, read_bool
from fairlead_api.client_files.forms import bundle_variables, name_of, server_lists
from fairlead_api.client_files.keys import (
    ACTIVE,
    EXCLUDED,
    INCLUDED,
    OF_URLS,
    OWN,
    OWN_FIELDS,
    PASSED,
    TRANSPORTS,
    URLS,
    Remark,
    remarks,
)
from fairlead_api.client_files.own_secrets import ReadSecretFile, take_secrets
from fairlead_api.client_files.sign_in import original_key, read_consent
from fairlead_api.client_files.tools import add_tools
from fairlead_api.client_files.variables import REPLACE_IT, FileSurroundings, has_unfilled_part
from fairlead_api.documents.catalog import Credential
from fairlead_api.meta import ANNOTATION_FORM, API_VERSION, CLIENT_CONFIGURATION, short_hash
from fairlead_api.problems import REQUIRED, Complaint

NAMESPACE: Final = "default"
_NAME_LIMIT: Final = 50
_TRANSPORTS: Final = {
    "stdio": "stdio",
    "local": "stdio",
    "sse": "sse",
    "http": "streamable-http",
    "http-stream": "streamable-http",
    "httpstream": "streamable-http",
    "remote": "streamable-http",
    "streamable": "streamable-http",
    "streamable-http": "streamable-http",
    "streamablehttp": "streamable-http",
    "streamable_http": "streamable-http",
}
_ARGUMENT: Final = re.compile(r"command\[([0-9]+)\]")
ReadEnvFile = Callable[[str], Mapping[str, str]]
"""Reads the environment file that an entry names. Raises ValueError with a sentence."""


@dataclass(frozen=True)
class ConfiguredServer:
    """One entry of a server list."""

    name: str
    content: Any
    path: tuple[str | int, ...]
    """Keys and indexes that lead to the entry in the file."""
    resource: str = ""
    """Name of the entry's McpServer; empty stands for `resource_name(name)`."""
    original_keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of `content` that have another name in the client's file, each with that original name; also paths, such
    as `headers.Authorization`, with their original path."""
    unserved: str | None = None
    """Why Fairlead cannot serve the entry; None if it can. Some entries can only be run by their client."""
    cwd: str | None = None
    """Folder of the project to which the entry belongs. If the entry has no working directory, it runs in this folder,
    if the folder exists.
    """
    dialect: str = ""
    """Variable syntax of the entry's values: a key of `variables.DIALECTS`."""


@dataclass(frozen=True)
class Translated:
    """One entry as a manifest, with data for which a manifest has no fields."""

    manifest: dict[str, Any]
    """An McpServer that is not validated yet."""
    credential: Credential
    cwd: str | None = None
    """Working directory of the entry, relative to its file."""
    remarks: tuple[Remark, ...] = ()
    """Remarks about keys that have no effect."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Data of the Secret that `auth` and `discovery.auth` of the manifest refer to; its name is that of the server."""


def is_client_configuration(content: object) -> bool:
    """Whether a parsed file has a server list of a supported client."""
    return bool(server_lists(content))


def entries(content: Mapping[str, Any] | Sequence[Any]) -> Iterator[ConfiguredServer]:
    """The enabled entries of all server lists of a file, in order. An entry that several lists share occurs once."""
    names: dict[str, tuple[str, object]] = {}
    for servers in server_lists(content):
        named: Iterator[tuple[str | None, str | int, Any]]
        if isinstance(servers.servers, Mapping):
            named = ((str(name), str(name), entry) for name, entry in servers.servers.items())
        else:
            named = ((None, index, entry) for index, entry in enumerate(servers.servers))
        for key, step, entry in named:
            normalized = servers.normalize(entry)
            name = name_of(normalized.content) if key is None else key
            path = (*servers.path, step) if servers.dialect != "bundle" else (*servers.path, "mcp_config")
            resource = resource_name(name)
            if (first := names.setdefault(resource, (name, entry))) != (name, entry):
                resource = _distinct(resource, *map(str, path))
            elif first[1] is not entry:
                continue
            if not _is_off(entry):
                yield ConfiguredServer(
                    name,
                    normalized.content,
                    path,
                    resource,
                    normalized.original_keys,
                    normalized.unserved,
                    servers.cwd,
                    servers.dialect,
                )


def _is_off(entry: object) -> bool:
    """Whether an entry is disabled. Values that are not booleans are reported by `translate`."""
    if not isinstance(entry, Mapping):
        return False
    return read_bool(entry.get("disabled")) is True or any(read_bool(entry.get(key)) is False for key in ACTIVE)


def resource_name(name: str) -> str:
    """Convert `name` to a valid name of an McpServer. If the name is too long or loses letters, it ends in a hash of
    the original name."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not label or not label[0].isalpha():
        label = f"server-{label}".rstrip("-")
    return _distinct(label, name) if lost_letters(name) or len(label) > _NAME_LIMIT else label


def lost_letters(name: str) -> bool:
    """Whether `name` has letters or digits that the name of an McpServer cannot have."""
    return any(letter.isalnum() and not letter.isascii() for letter in name)


def _distinct(label: str, *parts: str) -> str:
    """`label` with a hash of `parts`, which makes it unique."""
    return f"{label[: _NAME_LIMIT - 11].rstrip('-')}-{short_hash(*parts)}"


def surroundings_with_bundle(
    around: FileSurroundings, content: object, folder: str, environ: Mapping[str, str]
) -> FileSurroundings:
    """`around`, with values for the placeholders of an MCPB manifest if `content` is such a manifest."""
    if not isinstance(content, Mapping) or not any(servers.dialect == "bundle" for servers in server_lists(content)):
        return around
    texts = {**around.texts, **bundle_variables(content, folder, environ)}
    return FileSurroundings(around.variables, texts, around.gemini)


def translate(
    entry: ConfiguredServer,
    environ: Mapping[str, str],
    around: FileSurroundings | None = None,
    read_env_file: ReadEnvFile | None = None,
    read_secret_file: ReadSecretFile | None = None,
) -> Translated:
    """Translate one entry, with variables from `environ`, from its own `env` and from its file's location.

    Raises EntryProblem for an entry that cannot be served.
    """
    content = entry.content
    if not isinstance(content, Mapping):
        raise EntryProblem("", "must be an object with command or url")
    if not entry.name:
        if entry.path and isinstance(entry.path[-1], str):
            raise EntryProblem("", "has an empty name: give the server a name")
        raise EntryProblem("name", "is missing: each server of a list has a name, or an id")
    if entry.unserved:
        raise EntryProblem("", f"{entry.unserved}: remove it, or disable it, for Fairlead")
    noticed = [*remarks(content)]
    for remark in noticed:
        if remark.stops:
            raise EntryProblem(remark.key, remark.message)
    for key in ("disabled", *ACTIVE):
        if (value := content.get(key)) is not None and read_bool(value) is None:
            raise EntryProblem(key, f"must be true or false, not {value!r}")
    read = EntryReader(content, environ, around or FileSurroundings(), entry.dialect, entry.original_keys)
    variables = _environment(read, read_env_file)
    command, url = _command_or_url(read, entry.original_keys)
    transport = _transport(*read.first(TRANSPORTS), remote=url is not None)
    if url is not None:
        spec: dict[str, Any] = {"url": url, "remote": {"transport": transport}}
        credential = Credential(headers=_headers(read))
    else:
        spec = {"command": [command, *read.texts("args")]}
        credential = Credential(env=variables)
    name = entry.resource or resource_name(entry.name)
    own, secrets = take_secrets(_fairlead_fields(content.get(OWN)), read, name, read_secret_file)
    _refuse_second_credential(own, credential)
    _add_own(spec, own)
    if transport == "streamable-http" and "auth" not in own and not _authorizes(credential):
        noticed += _add_consent(spec, content, read, name, secrets)
    noticed += [*add_tools(spec, content), *read.remarks]
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "annotations": {ANNOTATION_FORM: CLIENT_CONFIGURATION},
    }
    manifest = {"apiVersion": API_VERSION, "kind": "McpServer", "metadata": metadata, "spec": spec}
    return Translated(manifest, credential, read.path("cwd"), tuple(noticed), secrets)


def _command_or_url(read: EntryReader, original_keys: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The entry's program and address, of which one is None. Raises EntryProblem."""
    command, (url_key, url) = read.path("command"), read.first(URLS)
    if command is not None and not command.strip():
        if url is None:
            raise EntryProblem("command", "is empty; it must name the server's program")
        command = None  # some clients write every key
    if command is not None and url is not None:
        local, remote = (original_keys.get(key, key) for key in ("command", url_key))
        raise EntryProblem("", f"has both {local}, for a local server, and {remote}, for a remote server: remove one")
    if command is None and url is None:
        raise EntryProblem("", "needs either command, for a local server, or url, for a remote server")
    if url is not None and not url.lower().startswith(("http://", "https://")):
        raise EntryProblem(url_key, "must start with http:// or https://, such as https://tools.example.com/mcp")
    if url is not None and has_unfilled_part(url):
        raise EntryProblem(url_key, f"contains a placeholder in <> or {{}}: {REPLACE_IT}")
    return command, url


def _environment(read: EntryReader, read_env_file: ReadEnvFile | None) -> dict[str, str]:
    """Variables of `envFile`, `env_vars` and `env`. If a name occurs in several of these, the last one wins.
    Afterwards, `read` resolves references to these variables in the entry's other values.
    """
    file = read.path("envFile")
    of_file: Mapping[str, str] = {}
    if file and read_env_file is not None:
        try:
            of_file = read_env_file(file)
        except ValueError as error:
            raise EntryProblem("envFile", str(error)) from error
    elif file:
        read.remarks.append(Remark("envFile", "is not read: put the file's variables into env", stops=False))
    variables = {**of_file, **read.passed_variables(PASSED), **read.mapping("env")}
    read.own = variables
    return variables


def in_words_of(entry: ConfiguredServer, complaint: Complaint) -> EntryProblem:
    """Translate a validation error of an entry's McpServer into the entry's own keys."""
    content = entry.content if isinstance(entry.content, Mapping) else {}
    field = _key_of(_argument_of(complaint), content)
    for names in (URLS, TRANSPORTS):
        if field == names[0]:
            field = next((name for name in names if name in content), field)
    message = complaint.message.replace("a credential goes into auth", "a credential goes into headers")
    if field.startswith((f"{OWN}.auth", f"{OWN}.discovery.auth")):
        message = _in_words_of_secrets(field, message)
        field = field.removesuffix(".secretRef")
    return EntryProblem(field, message)


def _in_words_of_secrets(field: str, message: str) -> str:
    """The message of a rule about a reference to a Secret, in the keys that an entry has in its place."""
    if field.endswith(".secretRef") and message == REQUIRED:
        return "set secret, as ${NAME}, or secretFile: the secret or private key of the client, or the token"
    return message.replace("secretRef names the Secret with", "secret or secretFile has").replace(
        "pass a credential to a stdio server in env", "pass a credential to a command in env"
    )


def _argument_of(complaint: Complaint) -> str:
    """Key of an entry for a field of a spec. In an entry, `command` and `args` are separate keys, and `url` is not
    within another key."""
    field = complaint.field.removeprefix("spec.").removeprefix("remote.")
    if field == "remote":  # an entry can break only one rule of remote, which is about caBundle
        return "caBundle"
    if field == "command[0]":
        return "command"
    if field == "command" and complaint.message.startswith("should have at most"):
        return "args"
    match = _ARGUMENT.fullmatch(field)
    return field if match is None else f"args[{int(match[1]) - 1}]"


def _key_of(field: str, content: Mapping[str, Any]) -> str:
    """Key of the entry for a field of the spec, such as the client's key for a list of tools, or a member of
    `fairlead`.
    """
    own = content.get(OWN)
    if field.startswith("auth") and not (isinstance(own, Mapping) and "auth" in own):
        return original_key(field, content) or field
    member = field.partition(".")[0].partition("[")[0]
    if member == "tools" and not (isinstance(own, Mapping) and "tools" in own):
        return next((key for key in (*INCLUDED, *EXCLUDED) if key in content), field)
    return f"{OWN}.{field}" if member in OWN_FIELDS else field


def _refuse_second_credential(own: Mapping[str, Any], credential: Credential) -> None:
    """Raise EntryProblem if the entry has the header Authorization in addition to `fairlead.auth`."""
    if own.get("auth") is not None and _authorizes(credential):
        raise EntryProblem(
            f"{OWN}.auth",
            "sends the header Authorization, but the field headers or apiKey also sets it: remove one of the two",
        )


def _authorizes(credential: Credential) -> bool:
    return any(name.lower() == "authorization" for name in credential.headers)


def _add_consent(
    spec: dict[str, Any], content: Mapping[str, Any], read: EntryReader, name: str, secrets: dict[str, str]
) -> list[Remark]:
    """Add the OAuth client of an entry to a spec, and its secret to `secrets`. Raises EntryProblem."""
    consent = read_consent(content, read)
    if not consent.members:
        return consent.remarks
    members = dict(consent.members)
    if consent.secret:
        secrets[consent.secret_key] = consent.secret
        members["secretRef"] = {"name": name, "key": consent.secret_key}
    spec["auth"] = {"userConsent": members}
    return consent.remarks


def _add_own(spec: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Copy the fields under `fairlead` to their positions in a spec."""
    for name, value in own.items():
        if name not in OF_URLS:
            spec[name] = value
        elif "remote" in spec:
            spec["remote"][name] = value
        else:
            raise EntryProblem(f"{OWN}.{name}", "only applies to a server with url: remove this field")


def _fairlead_fields(fields: object) -> dict[str, Any]:
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise EntryProblem(OWN, "must be an object of fields, such as prefix or session")
    for name in fields:
        if name not in OWN_FIELDS:
            raise EntryProblem(f"{OWN}.{name}", f"is not a field of {OWN}; its fields are {', '.join(OWN_FIELDS)}")
    return dict(fields)


def _transport(key: str, named: str | None, *, remote: bool) -> str:
    if named is None:
        return "streamable-http" if remote else "stdio"
    transport = _TRANSPORTS.get(named.lower())
    if transport is None:
        raise EntryProblem(key, f"{named!r} is not a transport; use stdio, sse or streamable-http")
    if (transport != "stdio") != remote:
        wants = "command" if transport == "stdio" else "url"
        raise EntryProblem(key, f"the transport {named!r} needs {wants} in the same entry")
    return transport


def _headers(read: EntryReader) -> dict[str, str]:
    headers = read.mapping("headers")
    key = read.text("apiKey")
    if key is None:
        return headers
    if any(name.lower() == "authorization" for name in headers):
        raise EntryProblem("apiKey", "is sent as the header Authorization, which headers sets too: remove one of them")
    return {**headers, "Authorization": f"Bearer {key}"}
