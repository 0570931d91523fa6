"""Parsing of an OpenAPI document from JSON or YAML, in bounded size and depth. No I/O.

YAML is read by the core schema of YAML 1.2, as OpenAPI 3.1 recommends (section 4.3): dates, `on`, `no` and `12:30` stay
text, and keys are always text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec
import yaml

from fairlead_api.yaml_files import yaml_problem

MAX_DOCUMENT_BYTES: Final = 32 << 20
ACCEPTED_TYPES: Final = "application/vnd.oai.openapi+json, application/json, application/yaml, text/yaml, */*;q=0.5"
"""`Accept` of requests for documents. Any type is read, as many hosts serve documents as plain text."""
MAX_REDIRECTS: Final = 3
"""Maximum redirects of a request for a document."""
MAX_DEPTH: Final = 100
"""Maximum number of levels of nesting."""
MAX_VALUES: Final = 8_000_000
"""Maximum number of values of a document, with its YAML aliases written out."""
_VERSION: Final = re.compile(r"3\.[01](\.\d+)?(-.+)?\Z")
_SPACES: Final = b"\xef\xbb\xbf \t\r\n"
_PAGE_STARTS: Final = (b"<!doctype html", b"<html", b"<head", b"<body")
_PAGE_ADVICE: Final = "name the document itself, which such a page links to, often as /openapi.json"
_RESOLVERS: Final = (  # tag, form and first characters of scalars that are not text (YAML 1.2, section 10.3.2)
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,400}", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+0123456789.")),
    ("merge", r"<<", ["<"]),
)


class DocumentRefused(Exception):
    """A document of which no tool can be made. The message is a sentence without its full stop."""


class _OpenApiLoader(yaml.CSafeLoader):
    """Loader of YAML 1.2's core schema, with merge keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # as in PyYAML's loaders

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping whose keys are text as it is written, such as the status `200`."""
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "expected a mapping", node.start_mark)
        self.flatten_mapping(node)
        mapping: dict[Any, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is not text", key.start_mark)
            mapping[key.value] = self.construct_object(value, deep=deep)
        return mapping


def _construct_int(loader: yaml.CSafeLoader, node: Any) -> int:
    return int(node.value)


def _construct_float(loader: yaml.CSafeLoader, node: Any) -> float | str:
    number = float(node.value)
    return number if number - number == 0 else str(node.value)  # 1e999 is not a number of JSON


def _construct_text(loader: yaml.CSafeLoader, node: Any) -> str:
    return str(node.value)


for _tag, _form, _first_characters in _RESOLVERS:
    _OpenApiLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_form})\Z"), _first_characters)
_OpenApiLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_OpenApiLoader.add_constructor("tag:yaml.org,2002:float", _construct_float)
for _tag in ("timestamp", "binary"):
    _OpenApiLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _construct_text)


def read_document(data: bytes) -> dict[str, Any]:
    """Parse a document of OpenAPI 3.0 or 3.1. Raises DocumentRefused."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DocumentRefused(f"the document has more than {MAX_DOCUMENT_BYTES >> 20} MiB")
    document = _parse(data)
    if not isinstance(document, dict):
        raise DocumentRefused("the document is not an object with `openapi`, `info` and `paths`")
    _check_bounds(document)
    _check_version(document)
    return document


def is_version_3_0(document: dict[str, Any]) -> bool:
    """Whether the schemas of a document are of OpenAPI 3.0's dialect, not of JSON Schema 2020-12."""
    return str(document["openapi"]).startswith("3.0")


def _parse(data: bytes) -> Any:
    body = data.lstrip(_SPACES)
    if body[: len(_PAGE_STARTS[0])].lower().startswith(_PAGE_STARTS):
        raise DocumentRefused(f"the document is a web page: {_PAGE_ADVICE}")
    try:
        if body[:1] == b"{":
            return msgspec.json.decode(body)
    except RecursionError as error:
        raise _depth_error() from error
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        try:  # a mapping of YAML may begin with a brace
            return _parse_yaml(body)
        except DocumentRefused:
            raise DocumentRefused(f"the document is not valid JSON: {error}") from error
    return _parse_yaml(body)


def _parse_yaml(body: bytes) -> Any:
    try:
        return yaml.load(body.decode(), _OpenApiLoader)  # noqa: S506  # a subclass of the safe loader
    except RecursionError as error:
        raise _depth_error() from error
    except UnicodeDecodeError as error:
        raise DocumentRefused("the document is neither JSON nor YAML in UTF-8") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentRefused(f"the document is not valid YAML: {yaml_problem(error)}") from error


def _depth_error() -> DocumentRefused:
    return DocumentRefused(f"the document is nested more than {MAX_DEPTH} levels deep")


def _check_bounds(document: dict[str, Any]) -> None:
    """Bound depth and number of values as a reader without aliases would see them. Raises DocumentRefused."""
    level: list[Any] = [document]
    values, depth = 1, 0
    while level:
        if depth > MAX_DEPTH:
            raise _depth_error()
        depth += 1
        level = [*islice(_children(level), MAX_VALUES + 1 - values)]
        values += len(level)
        if values > MAX_VALUES:
            raise DocumentRefused(
                f"the document has more than {MAX_VALUES:,} values, with its YAML aliases written out"
            )


def _children(level: list[Any]) -> Iterator[Any]:
    for value in level:
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list):
            yield from value


def _check_version(document: dict[str, Any]) -> None:
    version = document.get("openapi")
    if isinstance(version, int | float):  # unquoted in YAML
        version = document["openapi"] = str(version)
    if "swagger" in document and version is None:
        swagger_version = str(document["swagger"])[:20]
        raise DocumentRefused(
            f"the document is Swagger {swagger_version}, and only OpenAPI 3.0 and 3.1 are read; convert it, for "
            "example with `npx swagger2openapi`"
        )
    if version is None and _lists_documents(document):
        raise DocumentRefused(
            "it is the list of an API server's documents, not a document: use the document of one group, such as "
            "/openapi/v3/apis/apps/v1"
        )
    if version is None:
        raise DocumentRefused("the document has no member `openapi`, so it is not an OpenAPI document")
    if not isinstance(version, str) or not _VERSION.match(version):
        raise DocumentRefused(f"the document is OpenAPI {str(version)[:20]}, and only 3.0 and 3.1 are read")


def _lists_documents(document: dict[str, Any]) -> bool:
    """Whether the document is that of Kubernetes at `/openapi/v3`."""
    paths = document.get("paths")
    items = list(paths.values()) if isinstance(paths, dict) else []
    return bool(items) and all(isinstance(each, dict) and "serverRelativeURL" in each for each in items)
