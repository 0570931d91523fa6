"""Structs of a `tools/call` result by the schemas of 2025-11-25 and 2026-07-28 (`CallToolResult`).

A result that decodes into these structs is accepted by clients of both eras. The structs are stricter than the schema
where clients are stricter too: `format: byte` is padded base64, `format: uri` is a URI that parsers accept,
`lastModified` is an ISO 8601 date and time. Undeclared members are allowed and ignored.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

# each part has a maximal length: backtracking over a megabyte takes `re` half a second
_URI: Final = (
    r"^(?!(?:[Hh][Tt][Tt][Pp][Ss]?|[Ww][Ss][Ss]?|[Ff][Tt][Pp]):/{0,9}(?:[?#]|$))[A-Za-z][A-Za-z0-9+.\-]{0,63}:"
    r"(?:(?!//)|//(?:[^\s/?#@]{0,255}@)?(?:\[[0-9A-Fa-f:.]{2,45}\]|[^\s/?#@:<>^|\\\[\]%]{0,255})"
    r"(?::(?:[0-9]{0,4}|[1-5][0-9]{4}))?(?:[/?#]|$))"
)
_TIME: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})$"

Uri: TypeAlias = Annotated[str, Meta(pattern=_URI)]
"""Absolute URI (RFC 3986, section 3), with a host if its scheme requires one."""
Time: TypeAlias = Annotated[str, Meta(pattern=_TIME)]
Size: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""Integer that a double represents exactly."""
Priority: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Role: TypeAlias = Literal["user", "assistant"]


class AnyObject(Struct, frozen=True, gc=False):
    """Any JSON object; its members are not read."""


class Icon(Struct, frozen=True, gc=False, rename="camel"):
    """An icon of a resource or a server."""

    src: Uri
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["dark", "light"] | UnsetType = UNSET


class Annotations(Struct, frozen=True, gc=False, rename="camel"):
    """Annotations of a content block."""

    audience: list[Role] | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    last_modified: Time | UnsetType = UNSET


class _Block(Struct, frozen=True, gc=False, rename="camel"):
    """Members that all content blocks have."""

    annotations: Annotations | UnsetType = UNSET
    meta: AnyObject | UnsetType = msgspec.field(name="_meta", default=UNSET)


class TextBlock(_Block, frozen=True, gc=False, kw_only=True, tag="text"):
    """Text content."""

    text: str


class LongTextBlock(_Block, frozen=True, gc=False, kw_only=True, tag="text"):
    """Text content of a long result. It is not decoded, as decoding a text with many escapes takes as long as reading
    the message.
    """

    text: Raw


class ImageBlock(_Block, frozen=True, gc=False, kw_only=True, tag="image"):
    """Image content, in base64."""

    data: bytes
    mime_type: str


class AudioBlock(_Block, frozen=True, gc=False, kw_only=True, tag="audio"):
    """Audio content, in base64."""

    data: bytes
    mime_type: str


class ResourceLink(_Block, frozen=True, gc=False, kw_only=True, rename="camel", tag="resource_link"):
    """A link to a resource."""

    name: str
    uri: Uri
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: Size | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET


class ResourceContents(Struct, frozen=True, gc=False, rename="camel"):
    """`TextResourceContents` or `BlobResourceContents`."""

    uri: Uri
    text: str | UnsetType = UNSET
    blob: bytes | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    meta: AnyObject | UnsetType = msgspec.field(name="_meta", default=UNSET)

    def __post_init__(self) -> None:
        if self.text is UNSET and self.blob is UNSET:
            raise ValueError("the resource has neither text nor blob")


class EmbeddedResource(_Block, frozen=True, gc=False, kw_only=True, tag="resource"):
    """Embedded resource."""

    resource: ResourceContents


Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceLink | EmbeddedResource
LongBlock: TypeAlias = LongTextBlock | ImageBlock | AudioBlock | ResourceLink | EmbeddedResource


class Implementation(Struct, frozen=True, gc=False, rename="camel"):
    """Name and version of a server (`serverInfo`)."""

    name: str
    version: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    website_url: Uri | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET


class RelatedTask(Struct, frozen=True, gc=False, rename="camel"):
    """Task that a result belongs to."""

    task_id: str


class ResultMeta(Struct, frozen=True, gc=False):
    """Members of a result's `_meta` whose type clients check."""

    progress_token: str | int | UnsetType = msgspec.field(name="progressToken", default=UNSET)
    related_task: RelatedTask | UnsetType = msgspec.field(name="io.modelcontextprotocol/related-task", default=UNSET)
    server_info: Implementation | UnsetType = msgspec.field(name="io.modelcontextprotocol/serverInfo", default=UNSET)
