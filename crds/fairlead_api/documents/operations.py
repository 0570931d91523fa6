"""How a tool made from an OpenAPI operation becomes one HTTP request: the operation's place in a catalog.

The operator compiles an OpenAPI document to definitions of tools with one `Operation` each; the gateway makes requests
from them. OpenAPI 3.0 and 3.1: Parameter Object, Media Type Object, Encoding Object, Security Requirement Object.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from fairlead_api.documents.base import DocumentStruct

OPERATION_MEMBER: Final = "fairlead.dev/operation"
"""Member of `_meta` with the operation of a tool, in listings and pins: a changed request is a changed definition."""
MAX_REMARKS: Final = 500
"""Maximum number of remarks in a report."""
MAX_REMARK: Final = 300
"""Maximum characters of the text of a remark."""

Style = Literal["matrix", "label", "simple", "form", "spaceDelimited", "pipeDelimited", "deepObject"]


class OperationParameter(DocumentStruct, kw_only=True, frozen=True):
    """A parameter of the request, and the tool's argument that gives its value."""

    argument: str
    """Name of the argument, which differs from `name` where two parameters would have the same name."""
    name: str
    location: Literal["path", "query", "header", "cookie"]
    style: Style = "simple"
    explode: bool = False
    allow_reserved: bool = False
    """Whether reserved characters (RFC 3986) of the value are sent as they are; `query` only."""
    media_type: str = ""
    """Media type that the value is written in, for a parameter with `content`; empty: by `style`."""


class PartEncoding(DocumentStruct, kw_only=True, frozen=True):
    """How one property of a form is written."""

    content_type: str = ""
    """Media type of the part; empty: by the value's type."""
    style: Style = "form"
    explode: bool = True
    allow_reserved: bool = False
    styled: bool = False
    """Whether `style` and `explode` hold for lists and objects in a multipart body too."""
    binary: bool = False
    """Whether the argument contains the part's bytes in base64, or an array of such texts."""


class OperationBody(DocumentStruct, kw_only=True, frozen=True):
    """Body of the request."""

    media_type: str
    argument: str = ""
    """Argument that is the whole body; empty: an object of the arguments in `properties`."""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    """Argument to name of the property."""
    required: bool = False
    """Whether a body is sent even if none of its arguments is given. Without `argument`, that body is an empty object.
    """
    binary: bool = False
    """Whether `argument` contains the body's bytes in base64."""
    encodings: dict[str, PartEncoding] = msgspec.field(default_factory=dict)
    """By name of the property, for forms."""


class Operation(DocumentStruct, kw_only=True, frozen=True):
    """Request of one operation."""

    method: str
    """Upper case."""
    path: str
    """Template of the path, such as `/pets/{id}`; it is appended to the path of the base URL."""
    base_url: str = ""
    """Absolute base URL of this operation's own `servers`; empty: that of the endpoint."""
    parameters: tuple[OperationParameter, ...] = ()
    body: OperationBody | None = None
    accept: str = "application/json"
    """Value of the header `Accept`."""
    structured: bool = False
    """Whether JSON answers are `structuredContent`: the tool has an `outputSchema`."""
    wrapped: bool = False
    """Whether a JSON answer that is not an object is put into `{"result": …}`, as the `outputSchema` says."""
    security: tuple[tuple[str, ...], ...] = ()
    """Alternatives; each names the schemes that a request needs together. An empty one: needs none."""


class OperationRemark(DocumentStruct, kw_only=True, frozen=True):
    """Reason why an operation did not become a tool, or lost a part."""

    operation: str
    """Method and path, such as `GET /pets/{id}`."""
    tool: str = ""
    """Name of the tool; empty for an operation that is left out."""
    why: str


class ApiReport(DocumentStruct, kw_only=True, frozen=True):
    """Report on the operations of an OpenAPI document."""

    digest: str
    """SHA-256 of the document, hexadecimal."""
    operations: int
    """Number of operations that `include` and `exclude` select."""
    with_loss: int = 0
    """Number of tools that lack something of their operation."""
    left_out: int = 0
    """Number of selected operations that did not become tools."""
    remarks: tuple[OperationRemark, ...] = ()
    """The first MAX_REMARKS of the operations that are left out, then of the tools with loss."""
    unmatched: tuple[str, ...] = ()
    """Patterns of `include` and `exclude` that no operation matches, at most MAX_REMARKS."""
    schemes: tuple[str, ...] | None = None
    """Sorted names of the document's security schemes; None if they are unknown or too many."""


def join_operation(definition: bytes | Raw, operation: Operation) -> Raw:
    """The definition of a tool with its operation in `_meta`. `definition` is a JSON object without `_meta`.

    Members of mappings are sorted, as in a catalog, so that an operation read from one has the same bytes and hash.
    """
    members = msgspec.json.decode(bytes(definition), type=dict[str, Raw])
    members["_meta"] = Raw(msgspec.json.encode({OPERATION_MEMBER: operation}, order="deterministic"))
    return Raw(msgspec.json.encode(members))


def split_operation(joined: bytes | Raw) -> tuple[Raw, Operation]:
    """Definition and operation of what `join_operation` returned. Raises msgspec.MsgspecError for anything else."""
    members = msgspec.json.decode(bytes(joined), type=dict[str, Raw])
    operation = msgspec.json.decode(members.pop("_meta", b"{}"), type=dict[str, Any]).get(OPERATION_MEMBER)
    return Raw(msgspec.json.encode(members)), msgspec.convert(operation, Operation)
