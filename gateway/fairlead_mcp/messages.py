"""Structs of JSON-RPC messages; members that are not decoded are raw JSON.

They have a module of their own, as mypyc does not compile msgspec structs.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp.content import AnyObject, Block, LongBlock, LongTextBlock, ResultMeta


class ErrorObject(msgspec.Struct, frozen=True):
    """Error object (JSON-RPC 2.0 section 5.1)."""

    code: int
    message: str = ""
    data: Raw | UnsetType = UNSET


class Response(msgspec.Struct, frozen=True, gc=False):
    """Response with exactly one of `result` and `error`. `id` is UNSET if the server left it out."""

    id: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: ErrorObject | None = None


class ResultHead(msgspec.Struct, frozen=True, gc=False):
    """Members that are decoded in results of all methods. Decoding also checks their types: `isError: "yes"` is
    invalid.
    """

    is_error: bool = msgspec.field(name="isError", default=False)
    result_type: str | UnsetType = msgspec.field(name="resultType", default=UNSET)
    meta: ResultMeta | UnsetType = msgspec.field(name="_meta", default=UNSET)
    request_state: Raw | UnsetType = msgspec.field(name="requestState", default=UNSET)


class ResultMembers(ResultHead, frozen=True, gc=False):
    """Members of a tool call's result that clients of both eras accept (`CallToolResult`)."""

    content: list[Block] | UnsetType = UNSET
    structured_content: AnyObject | UnsetType = msgspec.field(name="structuredContent", default=UNSET)


class LongResultMembers(ResultMembers, frozen=True, gc=False):
    """Members of a long result, whose texts are not decoded."""

    content: list[LongBlock] | UnsetType = UNSET  # type: ignore[assignment]  # only its presence is read


class RawContent(msgspec.Struct, frozen=True, gc=False):
    """Content of a result as raw JSON."""

    content: Raw = Raw()


MOST_LOOKED_AT: Final = 64
"""Blocks up to which `has_texts` checks a long result; with more blocks, decoding the texts is cheap enough."""


def has_texts(result: LongResultMembers) -> bool:
    """Whether the `text` of each text block is a JSON string. False also for more than MOST_LOOKED_AT blocks."""
    blocks = result.content
    if blocks is UNSET:
        return True
    return len(blocks) <= MOST_LOOKED_AT and all(
        not isinstance(block, LongTextBlock) or memoryview(block.text)[0] == ord('"') for block in blocks
    )


class Message(msgspec.Struct, frozen=True, gc=False):
    """JSON-RPC message: with `method` a request or notification, otherwise a response."""

    method: str | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: ErrorObject | UnsetType | None = UNSET

    @property
    def is_response(self) -> bool:
        return self.method is UNSET and (self.result is not UNSET or isinstance(self.error, ErrorObject))

    @property
    def is_request(self) -> bool:
        return self.method is not UNSET and self.id is not UNSET
