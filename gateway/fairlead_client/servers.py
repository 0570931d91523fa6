"""Reads the servers of a registry, which users declare as objects, an `mcp.json`, or McpServer manifests.

No I/O. Each declaration is converted to a `ServerDeclaration` with endpoint and credential. An McpServer that the
Kubernetes API server would reject is rejected with the same message.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import ValidationError

from fairlead_api.client_files.entry import EntryProblem
from fairlead_api.client_files.servers import (
    NAMESPACE,
    ConfiguredServer,
    Translated,
    entries,
    in_words_of,
    is_client_configuration,
    resource_name,
    translate,
)
from fairlead_api.documents.catalog import ChildEndpoint, Credential, EventsEndpoint, HttpEndpoint
from fairlead_api.load import load_text
from fairlead_api.meta import API_VERSION, ServerKey
from fairlead_api.problems import Complaint, complaints
from fairlead_api.v1alpha1.mcpserver import McpServer, Package, ToolOverride
from fairlead_mcp.surroundings import inherited_variables

Transport: TypeAlias = Literal["streamable-http", "sse"]
PACKAGE: Final = re.compile(r"(?P<registry>npm|pypi):(?P<name>.+?)(?:==|(?<=.)@)(?P<version>[^@=]+)")


class BadServer(ValueError):
    """A server's declaration is not valid; the message says what to change."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """An MCP server, with exactly one of `url`, `command` and `package`.

    Server(name="tools", url="https://tools.example.com/mcp", api_key=...)
    Server(name="files", command=["npx", "-y", "@modelcontextprotocol/server-filesystem", "/data"])
    Server(name="time", package="pypi:mcp-server-time==2026.10.19")
    """

    name: str
    url: str | None = None
    command: str | Sequence[str] | None = None
    """A program with its arguments; a string is a program without arguments and is not parsed by a shell."""
    package: str | None = None
    """`pypi:NAME==VERSION`, which needs `uv`, or `npm:NAME@VERSION`, which needs `npx`."""
    executable: str | None = None
    """The program in the package, if its name differs from the name of the package."""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the child process, in addition to inherited variables (`fairlead_mcp.surroundings`)."""
    cwd: str | Path | None = None
    transport: Transport | None = None
    """Transport of a `url`: `streamable-http` (default) or `sse`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    api_key: str | None = None
    """Sent as `Authorization: Bearer`."""
    host_header: str | None = None
    ca_bundle: str | None = None
    """CA certificates (PEM) that verify an https server, instead of the system's."""
    prefix: str | None = None
    """Prefix of tool names, as in `{prefix}__{tool}`. None means the server's name in lower case, "" means no prefix.
    """
    trust_annotations: bool | None = None
    """Whether `readOnlyHint` and `idempotentHint` of the server's tools permit retries of calls that may have been
    executed. None means False for a `url`, and True otherwise."""

    def __repr__(self) -> str:
        address = self.url or self.package or self.command
        return f"Server({self.name!r}, {address!r})"


@dataclass(frozen=True)
class ServerDeclaration:
    """A validated server of a registry."""

    name: str
    """Name that the user chose."""
    key: ServerKey
    prefix: str
    endpoint: HttpEndpoint | EventsEndpoint | ChildEndpoint
    credential: Credential
    trusted: bool
    """Whether annotations of the server's tools, such as `readOnlyHint`, are trusted."""
    overrides: Mapping[str, ToolOverride] = field(default_factory=dict)
    """A manifest's overrides for individual tools, by the server's own names."""
    named_only: bool = False
    """Whether tools without an override are left out (`discovery.tools: Named`)."""


ServerLike: TypeAlias = Server | McpServer | Mapping[str, Any]
Servers: TypeAlias = Mapping[str, Any] | Iterable[ServerLike]


class _Reader(NamedTuple):
    """Reads one server."""

    read: Callable[[], ServerDeclaration]
    """Raises BadServer."""
    entry: str | None = None
    """Name of an entry of an `mcp.json`; None for a server that the program itself declares."""


def read_declarations(
    servers: Servers, environ: Mapping[str, str] = os.environ, *, unusable: dict[str, BadServer] | None = None
) -> tuple[ServerDeclaration, ...]:
    """Read the servers of a list, or of the content of an `mcp.json`. In both, `${NAME}` is replaced from `environ`.

    Raises BadServer if a server is not valid, or has the name or prefix of a server before it. With `unusable`, such an
    entry of an `mcp.json` is added there by its name, and left out, as `fairlead up` does.
    """
    declarations: dict[str, ServerDeclaration] = {}
    for reader in _readers(servers, environ):
        try:
            declaration = reader.read()
            _check_unique(declaration, declarations.values())
        except BadServer as error:
            if unusable is None or reader.entry is None:
                raise
            unusable[reader.entry] = error
        else:
            declarations[declaration.name] = declaration
    return tuple(declarations.values())


def _check_unique(declaration: ServerDeclaration, others: Iterable[ServerDeclaration]) -> None:
    for other in others:
        if declaration.name == other.name:
            raise BadServer(f"two servers have the name {declaration.name!r}: rename one of them")
        if declaration.prefix and declaration.prefix == other.prefix:
            raise BadServer(
                f"servers {declaration.name!r} and {other.name!r} have the same prefix {declaration.prefix!r} of tool "
                "names: set prefix of one of them"
            )


def _readers(servers: Servers, environ: Mapping[str, str]) -> Iterator[_Reader]:
    if isinstance(servers, str | bytes | Path):
        raise BadServer("servers must be objects or the parsed content of a file, not the name of a file")
    for item in [servers] if isinstance(servers, Mapping) else servers:
        if isinstance(item, Server):
            yield _Reader(partial(_of_server, item, environ))
        elif isinstance(item, McpServer):
            yield _Reader(partial(_of_resource, item, item.metadata.name, Credential(), None, environ))
        elif isinstance(item, Mapping):
            yield from _readers_of_mapping(item, environ)
        else:
            raise BadServer(f"{type(item).__name__} is not a valid server: pass a Server, an McpServer or a mapping")


def _readers_of_mapping(content: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[_Reader]:
    if is_client_configuration(content):
        for entry in entries(content):
            yield _Reader(partial(_of_entry, entry, environ), entry.name)
    elif content.get("kind") == "McpServer":
        server = _manifest(content)
        yield _Reader(partial(_of_resource, server, server.metadata.name, Credential(), None, environ))
    else:
        name = content.get("id") or content.get("name")
        entry = ConfiguredServer(name if isinstance(name, str) else "", content, ())
        yield _Reader(partial(_of_entry, entry, environ))


def _manifest(content: Mapping[str, Any]) -> McpServer:
    """Parse and validate a manifest, as strictly as a file of manifests."""
    metadata = content.get("metadata")
    name = metadata.get("name", "a manifest") if isinstance(metadata, Mapping) else "a manifest"
    try:
        loaded = load_text(json.dumps(content))
    except (TypeError, ValueError) as error:
        raise BadServer(f"{name}: the manifest has a value that cannot be expressed in JSON: {error}") from error
    for problem in loaded.problems:
        raise BadServer(": ".join(part for part in (str(name), problem.field, problem.message) if part))
    return loaded.of_kind(McpServer)[0]


def _of_entry(entry: ConfiguredServer, environ: Mapping[str, str]) -> ServerDeclaration:
    try:
        translation: Translated = translate(entry, environ)
    except EntryProblem as problem:
        field = ".".join(part for part in (entry.name, problem.field) if part)
        raise BadServer(f"{field}: {problem}") from problem
    server = _validate(translation.manifest, entry.name, entry)
    return _of_resource(server, entry.name, translation.credential, translation.cwd, environ)


def _of_server(server: Server, environ: Mapping[str, str]) -> ServerDeclaration:
    spec: dict[str, Any] = {
        "url": server.url,
        "prefix": server.prefix or None,
        "trustAnnotations": server.trust_annotations,
    }
    remote = {"transport": server.transport, "hostHeader": server.host_header, "caBundle": server.ca_bundle}
    spec["remote"] = {name: value for name, value in remote.items() if value is not None} or None
    if server.command is not None:
        program = [server.command] if isinstance(server.command, str) else list(server.command)
        spec["command"] = [*program, *server.args]
    if server.package is not None:
        spec["package"] = {**_package(server), "args": list(server.args)}
    metadata = {"name": resource_name(server.name), "namespace": NAMESPACE}
    spec_members = {name: value for name, value in spec.items() if value is not None}
    manifest = {"apiVersion": API_VERSION, "kind": "McpServer", "metadata": metadata, "spec": spec_members}
    credential = Credential(headers=_headers(server), env=dict(server.env))
    resource = _validate(manifest, server.name)
    cwd = None if server.cwd is None else str(server.cwd)
    return _of_resource(resource, server.name, credential, cwd, environ, unprefixed=server.prefix == "")


def _package(server: Server) -> dict[str, Any]:
    match = PACKAGE.fullmatch(server.package or "")
    if match is None:
        raise BadServer(
            f"{server.name}.package: must be pypi:NAME==VERSION or npm:NAME@VERSION, with one exact version"
        )
    return {**match.groupdict(), **({"executable": server.executable} if server.executable else {})}


def _headers(server: Server) -> dict[str, str]:
    headers = dict(server.headers)
    if server.api_key is None:
        return headers
    if any(name.lower() == "authorization" for name in headers):
        raise BadServer(f"{server.name}.api_key: headers already have Authorization, which api_key sets: remove one")
    return {**headers, "Authorization": f"Bearer {server.api_key}"}


def _validate(manifest: Mapping[str, Any], name: str, entry: ConfiguredServer | None = None) -> McpServer:
    try:
        return McpServer.model_validate(manifest)
    except ValidationError as error:
        first = complaints(error, McpServer)[0]
        if entry is None:
            raise BadServer(f"{name or 'a server'}{_in_words_of_server(first)}") from error
        problem = in_words_of(entry, first)
        raise BadServer(f"{'.'.join(part for part in (name, problem.field) if part)}: {problem}") from error


def _in_words_of_server(complaint: Complaint) -> str:
    """A validation error of a `Server`'s McpServer with the name of the parameter in front: `.url: must be …`."""
    field = complaint.field.removeprefix("spec.").removeprefix("remote.")
    if field == "spec":
        return ": set exactly one of url, command and package, which says where the server runs"
    parameter = re.sub("(?<=[a-z])[A-Z]", lambda capital: f"_{capital[0].lower()}", field)
    return f".{parameter}: " + complaint.message.replace(
        "a credential goes into auth", "a credential goes into api_key"
    )


def _of_resource(
    server: McpServer,
    name: str,
    credential: Credential,
    cwd: str | None,
    environ: Mapping[str, str],
    *,
    unprefixed: bool = False,
) -> ServerDeclaration:
    spec = server.spec
    if spec.image is not None:
        raise BadServer(f"{name}: a server with image runs only on a cluster: set url, command or package instead")
    # Clients' files may name OAuth clients. Nobody can sign in here, so the server is called without a token, and
    # `sign_in_wanted` explains its refusal.
    auth = None if spec.auth is None or spec.auth.user_consent is not None else spec.auth
    if auth is not None and auth.user_key is not None:
        raise BadServer(
            f"{name}: auth needs a key of each user, which only the gateway asks for: set a key with Server(...)"
        )
    if auth is not None and auth.grant is not None:
        raise BadServer(f"{name}: auth obtains tokens, which only the gateway does: set headers with Server(...)")
    if auth is not None or spec.env_from or any(variable.value_from for variable in spec.env):
        raise BadServer(
            f"{name}: refers to a Secret or ConfigMap, which only the operator can read: set the value with Server(...)"
        )
    endpoint: HttpEndpoint | EventsEndpoint | ChildEndpoint
    env = {variable.name: variable.value or "" for variable in spec.env} | credential.env
    if spec.url is not None:
        kind = EventsEndpoint if spec.effective_transport == "sse" else HttpEndpoint
        endpoint = kind(url=spec.url, host_header=spec.host_header, ca_bundle=spec.ca_bundle)
    else:
        command = _package_command(spec.package) if spec.package is not None else list(spec.command or ())
        env = inherited_variables(command[0], environ) | env
        endpoint = ChildEndpoint(command=command[0], args=tuple(command[1:]), cwd=cwd)
    return ServerDeclaration(
        name=name,
        key=ServerKey(server.metadata.namespace, server.metadata.name),
        prefix="" if unprefixed else spec.prefix or server.metadata.name,
        endpoint=endpoint,
        credential=Credential(headers=credential.headers, env=env),
        trusted=spec.trusts_annotations,
        overrides={override.name: override for override in spec.tools},
        named_only=not spec.offers(None),
    )


def _package_command(package: Package) -> list[str]:
    """Command that downloads a package if needed, and runs it."""
    if package.registry == "pypi":
        program = package.executable or package.name
        return [
            _find_in_environment("uv"),
            "tool",
            "run",
            "--from",
            f"{package.name}=={package.version}",
            program,
            *package.args,
        ]
    specifier = f"{package.name}@{package.version}"
    if package.executable is None:
        return ["npx", "--yes", specifier, *package.args]
    return ["npx", "--yes", f"--package={specifier}", "--", package.executable, *package.args]


def _find_in_environment(program: str) -> str:
    """Path of a program in the Python environment; its name if it is not there."""
    path = Path(sys.executable).with_name(program)
    return str(path) if path.exists() else program
