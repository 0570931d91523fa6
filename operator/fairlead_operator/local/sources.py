"""Reads manifests and client configurations, and reads them again when a file changes. Files are never written.

An unreadable file does not affect other files, and an invalid server does not affect other servers of its file. Both
are reported as problems with file, line and field, and their last valid declarations stay in use.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from fairlead_api.client_files.interpolation import UnsetVariable, interpolate
from fairlead_api.load import (
    MAX_FILE_BYTES,
    SUFFIXES,
    LoadedManifests,
    ManifestOrigin,
    ManifestProblem,
    RefusedServer,
    load_text,
)
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy
from fairlead_operator.local.configfile import MAX_NAMED, read_configuration
from fairlead_operator.local.inventory import Contents, DeclaredSecret, DeclaredServer, ResourceName
from fairlead_operator.local.references import find_withheld_variables

PROJECT_FILE: Final = ".mcp.json"
"""Client configuration of a project; the only hidden file of a folder that is read."""
PROJECT_FILES: Final = (PROJECT_FILE, "mcp.json")
"""Names of files whose top-level value may be a list of servers, without a member such as `mcpServers`."""
_FAIRLEAD_WORDS: Final = ("mcpServers", "fairlead.dev/")
"""If a file of a folder contains none of these words, it belongs to another program, and its problems are not reported.
"""

Signature = tuple[int, int, int]
"""Modification time in nanoseconds, size and inode of a file. A change of the signature is a change of the file."""
KeyedT = TypeVar("KeyedT", bound=DeclaredServer | LatencyTier | ToolPolicy)


@dataclass
class FileContents:
    """Resources and problems of one file."""

    servers: list[DeclaredServer] = field(default_factory=list)
    tiers: list[LatencyTier] = field(default_factory=list)
    policies: list[ToolPolicy] = field(default_factory=list)
    secrets: list[DeclaredSecret] = field(default_factory=list)
    config_maps: list[DeclaredSecret] = field(default_factory=list)
    origins: dict[ResourceName, ManifestOrigin] = field(default_factory=dict)
    """Position of each tier and policy."""
    problems: list[ManifestProblem] = field(default_factory=list)
    remarks: list[ManifestProblem] = field(default_factory=list)
    """Problems that may be intended, such as an empty list. Servers that the file declared before are stopped."""
    refused_servers: list[RefusedServer] = field(default_factory=list)

    @property
    def declares_nothing(self) -> bool:
        """Whether the file declares nothing and has no problem."""
        resource_lists = (self.servers, self.tiers, self.policies, self.secrets, self.config_maps)
        return not any((*resource_lists, self.problems, self.remarks))


@dataclass(frozen=True)
class Scan:
    """All declarations of the files, and their problems."""

    contents: Contents
    problems: tuple[ManifestProblem, ...]
    file_problems: tuple[ManifestProblem, ...] = ()
    """Problems (without notes) of files as a whole, and of resources other than servers."""


class Sources:
    """Files and folders that are scanned repeatedly.

    `environ` supplies the values of `${NAME}`. Servers are skipped if `is_own` returns True for their URL: the URL
    belongs to this gateway.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        environ: Mapping[str, str],
        *,
        is_own: Callable[[str], bool] = lambda url: False,
    ) -> None:
        self._paths = paths
        self._environ = environ
        self._is_own = is_own
        self._read_files: dict[Path, tuple[Signature | None, FileContents]] = {}
        self._path_problems: list[ManifestProblem] = []
        self._has_scanned = False

    def __repr__(self) -> str:
        return f"<Sources of {len(self._read_files)} files>"

    def scan(self) -> Scan | None:
        """Read the files that changed since the last scan; None if no file changed."""
        path_problems: list[ManifestProblem] = []
        signatures = {file: (_signature(file), is_named) for file, is_named in self._files(path_problems)}
        signatures_before = {file: signature for file, (signature, _) in self._read_files.items()}
        signatures_now = {file: signature for file, (signature, _) in signatures.items()}
        if self._has_scanned and signatures_now == signatures_before and path_problems == self._path_problems:
            return None
        read_files = {}
        for file, (signature, is_named) in signatures.items():
            last_read = self._read_files.get(file)
            if last_read is not None and last_read[0] == signature:
                read_files[file] = last_read
            else:
                was_declaring = last_read is not None and not last_read[1].declares_nothing
                new_contents = self._read(file, is_named, is_ours=is_named or was_declaring)
                read_files[file] = (
                    signature,
                    new_contents if last_read is None else _restore_unreadable(new_contents, last_read[1]),
                )
        self._read_files = read_files
        self._path_problems = path_problems
        self._has_scanned = True
        folders = FileContents(problems=[*path_problems, *self._empty_folders()])
        scan = _merge([folders, *(contents for _, contents in read_files.values())])
        return replace(scan, problems=(*scan.problems, *find_withheld_variables(scan.contents, self._environ)))

    def _empty_folders(self) -> Iterator[ManifestProblem]:
        """Problems of the folders that declare nothing."""
        for path in self._paths:
            if not path.is_dir():
                continue
            files = [contents for file, (_, contents) in self._read_files.items() if file.parent == path]
            if all(contents.declares_nothing for contents in files) and not any(
                problem.file == str(path) for problem in self._path_problems
            ):
                yield ManifestProblem(str(path), 0, "", _empty_folder_message(len(files)))

    def _files(self, path_problems: list[ManifestProblem]) -> Iterator[tuple[Path, bool]]:
        """Each file, and whether the user named the file itself instead of its folder. Appends problems of missing or
        unreadable paths to `path_problems`.
        """
        for path in self._paths:
            if not path.is_dir():
                if not path.exists():
                    path_problems.append(
                        ManifestProblem(str(path), 0, "", "no longer exists, so its servers are removed")
                    )
                yield path, True
                continue
            try:
                folder_files = sorted(path.iterdir())
            except OSError as error:
                path_problems.append(ManifestProblem(str(path), 0, "", f"cannot be read: {error.strerror}"))
                continue
            for file in folder_files:
                is_hidden = file.name.startswith(".") and file.name != PROJECT_FILE
                if file.suffix in SUFFIXES and not is_hidden and not file.is_dir():
                    yield file, False

    def _read(self, file: Path, is_named: bool, *, is_ours: bool) -> FileContents:
        """Read a file. Without `is_ours`, the file may be of another program, whose problems are left out."""
        try:
            if file.stat().st_size > MAX_FILE_BYTES:
                hint = "" if is_named else "; an OpenAPI document may be larger if it is named: fairlead up "
                raise ValueError(f"larger than {MAX_FILE_BYTES >> 20} MiB{hint}{'' if is_named else file}")
            text = file.read_text("utf-8-sig")
        except FileNotFoundError:
            return FileContents()
        except UnicodeDecodeError:
            return FileContents(problems=[ManifestProblem(str(file), 0, "", "is not UTF-8 text: save it as UTF-8")])
        except (OSError, ValueError) as error:
            reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            return FileContents(problems=[ManifestProblem(str(file), 0, "", f"cannot be read: {reason}")])
        contents = self._parse(text, file, bare=is_named or file.name in PROJECT_FILES)
        if not is_ours and not any(word in text for word in _FAIRLEAD_WORDS):
            contents.problems = []
            contents.remarks = []
            contents.refused_servers = []
        return contents

    def _parse(self, text: str, file: Path, *, bare: bool) -> FileContents:
        configuration = read_configuration(text, file, self._environ, self._is_own, bare=bare)
        if configuration is not None:
            return FileContents(
                servers=configuration.servers,
                problems=configuration.problems,
                remarks=configuration.remarks,
                refused_servers=configuration.refused_servers,
            )
        return self._manifests(load_text(text, str(file)))

    def _manifests(self, manifests: LoadedManifests) -> FileContents:
        servers = []
        for server in manifests.of_kind(McpServer):
            origin = manifests.origins["McpServer", server.metadata.namespace, server.metadata.name]
            folder = Path(origin.file).parent
            servers.append(DeclaredServer(_with_document(server, folder), origin=f"{origin.file}:{origin.line}"))
        tiers, policies = manifests.of_kind(LatencyTier), manifests.of_kind(ToolPolicy)
        contents = FileContents(
            servers, tiers, policies, problems=[*manifests.problems], refused_servers=[*manifests.refused]
        )
        contents.origins = {name: origin for name, origin in manifests.origins.items() if name[0] != "McpServer"}
        for origin, other in manifests.others:
            self._add_secret(origin, other, contents)
        return contents

    def _add_secret(self, origin: ManifestOrigin, content: dict[str, Any], contents: FileContents) -> None:
        kind, metadata = content.get("kind"), content.get("metadata")
        if kind not in ("Secret", "ConfigMap") or not isinstance(metadata, dict):
            return
        try:
            secret = _secret(content, metadata, self._environ)
        except (UnsetVariable, ValueError) as error:
            problem = ManifestProblem(origin.file, origin.line, f"{kind} {metadata.get('name')}", str(error))
            contents.problems.append(problem)
        else:
            (contents.secrets if kind == "Secret" else contents.config_maps).append(secret)


def _with_document(server: McpServer, folder: Path) -> McpServer:
    """The server with an absolute path of its OpenAPI document. In the manifest, the path is relative to `folder`."""
    api = server.spec.openapi
    if api is None or api.file is None:
        return server
    api = api.model_copy(update={"file": str((folder / Path(api.file).expanduser()).resolve())})
    return server.model_copy(update={"spec": server.spec.model_copy(update={"openapi": api})})


def _secret(content: Mapping[str, Any], metadata: Mapping[str, Any], environ: Mapping[str, str]) -> DeclaredSecret:
    """Read a Secret or ConfigMap; `${NAME}` is expanded in `stringData`. Raises ValueError and UnsetVariable."""
    data: dict[str, str] = {}
    for name, value in (content.get("data") or {}).items():
        try:
            text = base64.b64decode(str(value), validate=True).decode() if content["kind"] == "Secret" else str(value)
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ValueError(f"data.{name} is not base64-encoded UTF-8 text; put plain text into stringData") from error
        data[str(name)] = text
    for name, value in (content.get("stringData") or {}).items():
        data[str(name)] = interpolate(str(value), environ)
    return DeclaredSecret(
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata.get("name", "")),
        data=data,
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
    )


def _empty_folder_message(files: int) -> str:
    """Message about a folder without servers, in which `files` files were read."""
    suffixes = ", ".join(SUFFIXES)
    fact = "no file in the folder declares a server" if files else f"the folder has no file with the ending {suffixes}"
    return f"{fact}: put an mcp.json or manifests into it; its subfolders are not read"


def _signature(file: Path) -> Signature | None:
    """Signature of a file; None if it cannot be read."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _restore_unreadable(new_contents: FileContents, last_contents: FileContents) -> FileContents:
    """The new contents of a file, with the last declarations of the parts that are unreadable now: a typing error stops
    no server.

    If the only problems are refused servers, the last declarations of these servers are restored, and servers that are
    missing in the file are removed. Otherwise, a missing server may be in an unreadable part, so all are restored.
    """
    refused_keys = {refused_server.key for refused_server in new_contents.refused_servers}
    server_problems = {
        problem for refused_server in new_contents.refused_servers for problem in refused_server.problems
    }
    if server_problems.issuperset(new_contents.problems):
        servers_before = [declared_keys for declared_keys in last_contents.servers if declared_keys.key in refused_keys]
        return replace(new_contents, servers=_merge_by_key(servers_before, new_contents.servers))
    declared_keys = {server.key for server in new_contents.servers} | refused_keys
    still_refused = [
        refused_server for refused_server in last_contents.refused_servers if refused_server.key not in declared_keys
    ]
    secrets = {(secret.namespace, secret.name): secret for secret in [*last_contents.secrets, *new_contents.secrets]}
    maps = {
        (secret.namespace, secret.name): secret for secret in [*last_contents.config_maps, *new_contents.config_maps]
    }
    running = sorted({server.key.name for server in last_contents.servers} - {key.name for key in declared_keys})
    return replace(
        new_contents,
        servers=_merge_by_key(last_contents.servers, new_contents.servers),
        tiers=_merge_by_key(last_contents.tiers, new_contents.tiers),
        policies=_merge_by_key(last_contents.policies, new_contents.policies),
        secrets=list(secrets.values()),
        config_maps=list(maps.values()),
        origins=last_contents.origins | new_contents.origins,
        remarks=[*new_contents.remarks, *([] if new_contents.servers else last_contents.remarks)],
        refused_servers=[*new_contents.refused_servers, *still_refused],
        problems=[
            *(
                problem if problem in server_problems else _add_running_servers(problem, running)
                for problem in new_contents.problems
            ),
            *(problem for refused_server in still_refused for problem in refused_server.problems),
        ],
    )


def _add_running_servers(problem: ManifestProblem, names: Sequence[str]) -> ManifestProblem:
    """The problem of an unreadable file, with the names of the servers that keep running as declared before."""
    if not names:
        return problem
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    verb = "keeps" if len(names) == 1 else "keep"
    message = f"{problem.message} ({', '.join(names[:MAX_NAMED])}{more} {verb} running as declared before)"
    return replace(problem, message=message)


def _merge_by_key(last_resources: Iterable[KeyedT], new_resources: Iterable[KeyedT]) -> list[KeyedT]:
    """The resources of both collections. If both have a resource of the same key, the new one counts."""
    return list({resource.key: resource for resource in [*last_resources, *new_resources]}.values())


def _merge(files: Iterable[FileContents]) -> Scan:
    """Combine the contents of all files. If two files declare the same server, the first one counts."""
    servers: dict[ServerKey, DeclaredServer] = {}
    tiers: dict[ServerKey, LatencyTier] = {}
    policies: dict[ServerKey, ToolPolicy] = {}
    secrets: dict[tuple[str, str], DeclaredSecret] = {}
    config_maps: dict[tuple[str, str], DeclaredSecret] = {}
    origins: dict[ResourceName, ManifestOrigin] = {}
    problems: list[ManifestProblem] = []
    refused: dict[ServerKey, RefusedServer] = {}
    for contents in files:
        origins = contents.origins | origins
        refused = {each.key: each for each in contents.refused_servers} | refused
        problems += [*contents.problems, *contents.remarks]
        for server in contents.servers:
            first_server = servers.setdefault(server.key, server)
            if first_server is not server:
                file, _, line = server.origin.rpartition(":")
                fact = f"a server with the name {server.key.name} is already declared in {first_server.origin}"
                message = f"{fact}, so this one is ignored: rename one of them"
                problems.append(ManifestProblem(file, int(line), "", message))
        for tier in contents.tiers:
            tiers.setdefault(tier.key, tier)
        for policy in contents.policies:
            policies.setdefault(policy.key, policy)
        secrets |= {(secret.namespace, secret.name): secret for secret in contents.secrets}
        config_maps |= {(secret.namespace, secret.name): secret for secret in contents.config_maps}
    for key in refused.keys() & servers.keys():
        problem, origin = refused[key].problem, servers[key].origin
        if not origin.startswith(f"{problem.file}:"):
            del refused[key]
            note = f"{problem.message} (the server of this name in {origin} runs)"
            problems = [replace(each, message=note) if each == problem else each for each in problems]
    declared_contents = Contents(
        servers,
        tuple(tiers.values()),
        tuple(policies.values()),
        secrets,
        config_maps,
        refused,
        origins,
    )
    server_problems = {problem for each in refused.values() for problem in each.problems}
    file_problems = [problem for problem in problems if not problem.is_note and problem not in server_problems]
    return Scan(declared_contents, tuple(problems), tuple(file_problems))
