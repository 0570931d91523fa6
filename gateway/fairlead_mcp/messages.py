"""Structs of JSON-RPC messages; members that are not read stay raw.

Declarations only, which `jsonrpc` exports: classes that msgspec makes are not compiled.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp.content import AnyObject, Block, LongBlock, LongTextBlock, ResultMeta


class ErrorObject(msgspec.Struct, frozen=True):
    """JSON-RPC 2.0 section 5.1. `data` stays raw."""

    code: int
    message: str = ""
    data: Raw | UnsetType = UNSET


class Response(msgspec.Struct, frozen=True, gc=False):
    """A response: exactly one of `result` (raw) and `error`. `id` is raw, UNSET where a server left it out."""

    id: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: ErrorObject | None = None


class ResultHead(msgspec.Struct, frozen=True, gc=False):
    """Members of any result that are read. Types are checked, so that nobody gets `isError: "yes"`."""

    is_error: bool = msgspec.field(name="isError", default=False)
    result_type: str | UnsetType = msgspec.field(name="resultType", default=UNSET)
    meta: ResultMeta | UnsetType = msgspec.field(name="_meta", default=UNSET)
    request_state: Raw | UnsetType = msgspec.field(name="requestState", default=UNSET)


class ResultMembers(ResultHead, frozen=True, gc=False):
    """A result with those of a tool call, in the form that clients of both eras take (`CallToolResult`)."""

    content: list[Block] | UnsetType = UNSET
    structured_content: AnyObject | UnsetType = msgspec.field(name="structuredContent", default=UNSET)


class LongResultMembers(ResultMembers, frozen=True, gc=False):
    """Those of a long result, of whose texts no copy is made."""

    content: list[LongBlock] | UnsetType = UNSET  # type: ignore[assignment]  # nobody reads more than whether it is there


class RawContent(msgspec.Struct, frozen=True, gc=False):
    """The content of a result, as it came."""

    content: Raw = Raw()


MOST_LOOKED_AT: Final = 64
"""Blocks of a long result that are looked at one by one; of more of them the texts are short."""


def has_texts(result: LongResultMembers) -> bool:
    """Whether the texts of a long result are texts. False too where there are too many to look at."""
    blocks = result.content
    if blocks is UNSET:
        return True
    return len(blocks) <= MOST_LOOKED_AT and all(
        not isinstance(block, LongTextBlock) or memoryview(block.text)[0] == ord('"') for block in blocks
    )


class Message(msgspec.Struct, frozen=True, gc=False):
    """Any message, as it comes from a stream. With `method` a request or notification, otherwise a response."""

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
