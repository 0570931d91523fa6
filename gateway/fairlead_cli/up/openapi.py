"""OpenAPI documents on the command line of `fairlead up`: each becomes a server, whose tools are its operations."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from pydantic import ValidationError

from fairlead_api.problems import complaints
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_openapi.compiling.reading import MAX_DOCUMENT_BYTES
from fairlead_operator.local.inventory import DeclaredServer

_IN_YAML: Final = re.compile(rb"""^["']?(?:openapi|swagger)["']?\s*:\s*["']?\d""", re.MULTILINE)
"""Version of the document in YAML, only as a top-level member: a manifest may contain a complete document."""
_IN_BROKEN_JSON: Final = re.compile(rb"""\s*\{[^{}]*["']?(?:openapi|swagger)["']?\s*:\s*["']?\d""")
_ENDINGS: Final = (".json", ".yaml", ".yml", ".openapi", ".swagger")
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
NAME_CHARACTERS: Final = 40


class _Versions(msgspec.Struct):
    """Members of an OpenAPI document that say its version."""

    openapi: Any = None
    swagger: Any = None


def is_url(word: str) -> bool:
    """Whether an argument of the command line is a URL and not a path."""
    return word.startswith(("http://", "https://"))


def is_document(word: str) -> bool:
    """Whether an argument is an OpenAPI document: a URL, or a file with the version member of an OpenAPI document."""
    if is_url(word):
        return True
    try:
        with Path(word).open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES).removeprefix(codecs.BOM_UTF8)
    except OSError:
        return False
    if not data.lstrip().startswith(b"{"):
        return _IN_YAML.search(data) is not None
    try:
        versions = msgspec.json.decode(data, type=_Versions)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _IN_BROKEN_JSON.match(data) is not None
    return isinstance(versions.openapi, str) or isinstance(versions.swagger, str)


def api_servers(documents: Iterable[str]) -> list[DeclaredServer]:
    """A server for each document. Raises Failure."""
    return [_api_server(document) for document in documents]


def _api_server(document: str) -> DeclaredServer:
    source = {"url": document} if is_url(document) else {"file": str(Path(document).resolve())}
    manifest = {"metadata": {"name": server_name(document), "namespace": "default"}, "spec": {"openapi": source}}
    try:
        return DeclaredServer(McpServer.model_validate(manifest), origin=document)
    except ValidationError as error:
        raise Failure(f"{document}: {complaints(error, McpServer)[0].message}", code=USAGE_ERROR) from error


def server_name(document: str) -> str:
    """Name of the server of a document: the file's name, or host and port if the file has a common name such as
    openapi."""
    parts = urlsplit(document) if is_url(document) else None
    stem = Path(document if parts is None else parts.path).name.lower()
    while stem.endswith(_ENDINGS):
        stem = stem.rpartition(".")[0]
    name = _NOT_IN_NAMES.sub("-", stem).strip("-")
    if parts is not None and name in ("", "openapi", "swagger", "v3", "spec", "api-docs"):
        name = _NOT_IN_NAMES.sub("-", parts.netloc.rpartition("@")[2].lower()).strip("-")
    name = name[:NAME_CHARACTERS].strip("-") or "api"
    return name if name[0].isalpha() else f"api-{name}"[:NAME_CHARACTERS].strip("-")
