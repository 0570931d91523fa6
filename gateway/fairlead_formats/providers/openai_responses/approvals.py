"""A client's approvals of tool calls, read from the items of a request to OpenAI Responses. Pure module.

The gateway asked for approval in an item `mcp_approval_request`; the client answers with an `mcp_approval_response`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Raw

from fairlead_formats.providers.openai_responses.items import head_of
from fairlead_formats.providers.openai_responses.mcp_tools import (
    APPROVAL_ID,
    CALL_ID,
    is_approval_request,
    output_item,
    to_provider_items,
)
from fairlead_formats.wire.protocol import BadRequest
from fairlead_formats.wire.raw_json import decode_object

MAX_APPROVALS: Final = 128
"""Maximum number of approvals in one request."""
_DENIED: Final = "The user did not approve this call"
_RESULT_LOST: Final = "The result of this call is no longer available"


class Approvals:
    """The calls that a request approves, and the items of the request in the form that the provider accepts."""

    def __init__(self, items: Sequence[Raw], pending: Sequence[bytes] = ()) -> None:
        """`pending`: approval requests of an earlier answer that the provider stores. Raises BadRequest for too many
        approvals.
        """
        self.calls: list[dict[str, Any]] = []
        """Approved calls, which the gateway runs before it sends the request to the model."""
        self.placeholders: list[bytes] = []
        """Empty result items in `items`, in the order of `calls`, which `fill_results` replaces. It finds them by
        object identity, because call ids may repeat in a conversation.
        """
        self.ids: dict[str, str] = {}
        """Maps ids of approved calls to ids of their approval requests."""
        self.changed = False
        """Whether any item differs from the items of the client."""
        if not any(b"fairlead_" in bytes(item) for item in items):
            self.items: list[bytes | Raw] = [*items]
            return
        run_request_ids = {_approval_of(item) for item in items if b'"mcp_call"' in bytes(item)}
        calls = dict(_requested_calls(pending))
        last_index = max((index for index, item in enumerate(items) if head_of(item).is_from_model), default=-1)
        approved_ids: set[str] = set()
        self.items = []
        for index, raw in enumerate(items):
            head = head_of(raw)
            if head.kind == "mcp_approval_response":
                response = decode_object(raw)
                ident = str(response.get("approval_request_id", ""))
                if ident in run_request_ids or ident in calls:
                    if (
                        ident not in run_request_ids and ident not in approved_ids
                    ):  # a repeated approval must not run the call again
                        approved_ids.add(ident)
                        self.items.append(
                            self._answer_approval(ident, calls[ident], response, answered_since=index < last_index)
                        )
                    continue
            if head.kind == "mcp_approval_request":
                if head.id in run_request_ids:
                    continue
                calls.update(_requested_calls([raw]))
            self.items += to_provider_items(raw)
        self.changed = [*map(bytes, self.items)] != [*map(bytes, items)]

    def _answer_approval(
        self, ident: str, call: dict[str, Any], response: Mapping[str, Any], *, answered_since: bool
    ) -> bytes:
        """The result item of a call: empty if the gateway has to run the call, else the reason why it does not run.
        `answered_since`: whether an answer of the model follows the approval.
        """
        call_id = str(call.get("call_id"))
        if not response.get("approve"):
            reason = response.get("reason")
            return output_item(call_id, f"{_DENIED}: {reason}" if reason else f"{_DENIED}.")
        if answered_since:
            return output_item(call_id, f"{_RESULT_LOST}.")
        if len(self.calls) == MAX_APPROVALS:
            raise BadRequest(f"input: more than {MAX_APPROVALS} calls are approved; approve fewer at a time", "input")
        self.calls.append(call)
        self.placeholders.append(output_item(call_id, ""))
        self.ids[call_id] = ident
        return self.placeholders[-1]


def fill_results(
    items: Sequence[bytes | Raw], placeholders: Sequence[bytes], results: Sequence[bytes]
) -> list[bytes | Raw]:
    """The items with `results` in place of the empty result items `placeholders`, which are in the same order."""
    by_placeholder = {id(result_item): result for result_item, result in zip(placeholders, results, strict=True)}
    return [by_placeholder.get(id(raw), raw) for raw in items]


def _requested_calls(items: Sequence[bytes | Raw]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each approval request among the items: its id, and the call to approve."""
    for raw in items:
        if is_approval_request(raw):
            yield str(head_of(raw).id), decode_object(to_provider_items(raw)[0])


def _approval_of(call_item: bytes | Raw) -> str:
    """The id of the approval request of a call that the gateway ran. `call_item`: the call's `mcp_call` item."""
    ident = decode_object(call_item).get("approval_request_id")
    return str(ident) if ident else APPROVAL_ID + (head_of(call_item).id or "").removeprefix(CALL_ID)
