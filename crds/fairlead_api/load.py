"""Loader of manifest files: typed resources, and one sentence with file, line and field for each fault.

Faults raise no exceptions: they become `ManifestProblem`s, and all other resources are used. What an API server would
reject, the loader rejects with the same message.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from fairlead_api.crd import KINDS
from fairlead_api.meta import API_VERSION, GROUP, ServerKey
from fairlead_api.patterns import LABEL
from fairlead_api.problems import Complaint, complaints
from fairlead_api.remedies import Form
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.common import Resource
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.yamldocuments import BadDocument, Document, documents

DEFAULT_NAMESPACE: Final = "default"
SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_FILE_BYTES: Final = 8 * 1024 * 1024

_SET_BY_A_SERVER: Final = frozenset(
    {
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""Members of metadata that the API server sets. `kubectl get -o yaml` shows them, but manifests do not need them."""

ResourceT = TypeVar("ResourceT", bound=Resource)
_LABEL: Final = re.compile(f"(?=.{{1,63}}$){LABEL}")
_KINDS: Final = {kind.kind_name: kind for kind in KINDS}


@dataclass(frozen=True)
class ManifestProblem:
    """One fault in a manifest; `str()` is the sentence for a person."""

    file: str
    line: int
    """Line number from 1; 0 if no single line is at fault."""
    field: str
    """Path within the object, such as `spec.tools[0].name`; empty for the document as a whole."""
    message: str
    column: int = 0
    """Column number from 1; 0 if the column is unknown, or the line is precise enough."""
    is_note: bool = False
    """Whether this is a remark that needs no action."""

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        location += f":{self.column}" if self.line and self.column else ""
        return ": ".join(part for part in (location, self.field, self.message) if part)


@dataclass(frozen=True)
class RefusedServer:
    """A server whose declaration cannot be used."""

    key: ServerKey
    problems: tuple[ManifestProblem, ...]
    """The faults; at least one."""
    prefix: str | None = None
    """Prefix in the declaration; None stands for the default prefix."""
    cause: Cause = Cause.INVALID
    form: Form = "local"
    """Form of the declaration. It decides how advice names the declaration's fields."""

    @property
    def problem(self) -> ManifestProblem:
        """The first problem."""
        return self.problems[0]


@dataclass(frozen=True)
class ManifestOrigin:
    """Position of a document in a file."""

    file: str
    line: int


@dataclass
class LoadedManifests:
    """Resources and problems of one load."""

    resources: list[Resource] = field(default_factory=list)
    """Valid McpServers, LatencyTiers and ToolPolicies, unique by kind, namespace and name."""
    origins: dict[tuple[str, str, str], ManifestOrigin] = field(default_factory=dict)
    """Position of each resource, by kind, namespace and name."""
    others: list[tuple[ManifestOrigin, dict[str, Any]]] = field(default_factory=list)
    """Documents of other kinds, such as a Secret, and `mcpServers` configurations, both unparsed."""
    problems: list[ManifestProblem] = field(default_factory=list)
    refused: list[RefusedServer] = field(default_factory=list)
    """McpServers that have a valid name but break a rule."""

    def of_kind(self, kind: type[ResourceT]) -> list[ResourceT]:
        """The resources of one kind."""
        return [resource for resource in self.resources if isinstance(resource, kind)]


def load_paths(paths: Iterable[Path]) -> LoadedManifests:
    """Load files. For a folder, load the YAML and JSON files directly in it, ordered by name."""
    loaded = LoadedManifests()
    for path in paths:
        for file in _files(path):
            try:
                if file.stat().st_size > MAX_FILE_BYTES:
                    raise ValueError(f"larger than {MAX_FILE_BYTES // 1024 // 1024} MiB")
                text = file.read_text("utf-8")
            except (OSError, ValueError) as error:  # a UnicodeDecodeError is a ValueError
                loaded.problems.append(ManifestProblem(str(file), 0, "", f"cannot be read: {_reason(error)}"))
            else:
                _load(text, str(file), loaded)
    return loaded


def load_text(text: str, file: str = "-") -> LoadedManifests:
    """Load the documents of one text; `file` names the text in problems."""
    loaded = LoadedManifests()
    _load(text, file, loaded)
    return loaded


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.iterdir()):
        if file.suffix in SUFFIXES and not file.name.startswith(".") and not file.is_dir():
            yield file


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _load(text: str, file: str, loaded: LoadedManifests) -> None:
    for document in documents(text):
        if isinstance(document, BadDocument):
            loaded.problems.append(ManifestProblem(file, document.line, "", document.message))
            continue
        problems = [
            ManifestProblem(file, document.line_of(complaint.path), complaint.field, complaint.message)
            for complaint in _read(document, file, loaded)
        ]
        loaded.problems += problems
        if problems and (key := _server_key(document.content)) is not None:
            loaded.refused.append(RefusedServer(key, tuple(problems), _prefix_of(document.content)))


def _server_key(content: object) -> ServerKey | None:
    """Namespace and name of an McpServer's manifest, even if the rest is invalid; None without a valid name."""
    if not isinstance(content, dict) or content.get("kind") != McpServer.kind_name:
        return None
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        return None
    namespace, name = metadata.get("namespace") or DEFAULT_NAMESPACE, metadata.get("name")
    if not (isinstance(namespace, str) and isinstance(name, str)):
        return None
    return ServerKey(namespace, name) if _LABEL.fullmatch(namespace) and _LABEL.fullmatch(name) else None


def _prefix_of(content: dict[str, Any]) -> str | None:
    spec = content.get("spec")
    prefix = spec.get("prefix") if isinstance(spec, dict) else None
    return prefix if isinstance(prefix, str) else None


def _read(document: Document, file: str, loaded: LoadedManifests) -> list[Complaint]:
    """Add one document to `loaded`, or return its faults."""
    content, origin = document.content, ManifestOrigin(file, document.line)
    if not isinstance(content, dict):
        return [Complaint((), "must be a Kubernetes object: a mapping with apiVersion, kind, metadata and spec")]
    kind = _kind_of(content)
    if kind is None:
        loaded.others.append((origin, content))
        return []
    if isinstance(kind, Complaint):
        return [kind]
    resource = _validate(content, kind)
    if isinstance(resource, list):
        return resource
    identity = (kind.kind_name, resource.metadata.namespace, resource.metadata.name)
    if identity in loaded.origins:
        first = loaded.origins[identity]
        location = f"{first.file}:{first.line}"
        return [Complaint(("metadata", "name"), f"{kind.kind_name} {resource.key.name} is also defined in {location}")]
    loaded.origins[identity] = origin
    loaded.resources.append(resource)
    return []


def _kind_of(content: dict[str, Any]) -> type[Resource] | Complaint | None:
    """The kind of a document; None for a document of another API, a Complaint for a misspelt kind or version."""
    version, name = content.get("apiVersion"), content.get("kind")
    if "mcpServers" in content and name is None:
        return None
    if not isinstance(version, str) or not isinstance(name, str):
        missing = "apiVersion" if not isinstance(version, str) else "kind"
        hint = f"; for a {name} it is {API_VERSION}" if name in _KINDS and missing == "apiVersion" else ""
        return Complaint((missing,), f"Required value{hint}")
    if version.partition("/")[0] != GROUP:
        return None
    if name not in _KINDS:
        near = difflib.get_close_matches(name, _KINDS, n=1, cutoff=0.5)
        return Complaint(("kind",), f"{name} is not a kind of {GROUP}" + (f"; did you mean {near[0]}?" if near else ""))
    if version != API_VERSION:
        return Complaint(("apiVersion",), f"{version} does not exist; use {API_VERSION}")
    return _KINDS[name]


def _validate(content: dict[str, Any], kind: type[Resource]) -> Resource | list[Complaint]:
    wanted = {**content, "status": None}
    if isinstance(metadata := content.get("metadata"), dict):
        wanted["metadata"] = {name: value for name, value in metadata.items() if name not in _SET_BY_A_SERVER}
        if kind.namespaced and not metadata.get("namespace"):
            wanted["metadata"]["namespace"] = DEFAULT_NAMESPACE
    try:
        # Strict JSON mode accepts what an API server accepts: "5" is not a number, and members have their JSON names
        # only.
        text = json.dumps(wanted, allow_nan=False)
        return kind.model_validate_json(text, strict=True, extra="forbid", by_alias=True, by_name=False)
    except ValidationError as error:
        return complaints(error, kind)
    except (TypeError, ValueError, RecursionError) as error:
        return [Complaint((), f"cannot be expressed in JSON: {error}")]
