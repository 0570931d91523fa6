"""Structs of JSON-RPC messages; members that are not decoded are raw JSON.

They have a module of their own, as mypyc does not compile msgspec structs.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp.content import AnyObject, Block, LongBlock, ResultMeta


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
