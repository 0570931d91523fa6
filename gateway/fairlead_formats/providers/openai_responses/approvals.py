"""Approvals of calls that the gateway runs, among the items of a request. Pure module."""

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

MOST_APPROVALS: Final = 128
"""Maximum number of approvals in one request."""
_DENIED: Final = "The user did not approve this call"
_LOST: Final = "The result of this call is no longer available"


class Approvals:
    """The items of a request in the provider's form, and the calls that the request approves."""

    def __init__(self, items: Sequence[Raw], pending: Sequence[bytes] = ()) -> None:
        """`pending`: approval requests of an earlier answer that the provider stores. Raises BadRequest for too many
        approvals.
        """
        self.calls: list[dict[str, Any]] = []
        """Calls to run before the request is sent to the model."""
        self.placeholders: list[bytes] = []
        """Empty result items, in the order of `calls`. They are identified by object identity, because the same call id
        may occur in every answer.
        """
        self.ids: dict[str, str] = {}
        """Maps ids of approved calls to ids of their approval requests."""
        self.changed = False
        """Whether any item differs from the client's."""
        if not any(b"fairlead_" in bytes(item) for item in items):
            self.items: list[bytes | Raw] = [*items]
            return
        ran_approvals = {_approval_of(item) for item in items if b'"mcp_call"' in bytes(item)}
        calls = dict(_requested_calls(pending))
        last = max((index for index, item in enumerate(items) if head_of(item).from_model), default=-1)
        approved_ids: set[str] = set()
        self.items = []
        for index, raw in enumerate(items):
            head = head_of(raw)
            if head.kind == "mcp_approval_response":
                response = decode_object(raw)
                ident = str(response.get("approval_request_id", ""))
                if ident in ran_approvals or ident in calls:
                    if (
                        ident not in ran_approvals and ident not in approved_ids
                    ):  # a second approval must not run the call again
                        approved_ids.add(ident)
                        self.items.append(
                            self._answer_approval(ident, calls[ident], response, answered_since=index < last)
                        )
                    continue
            if head.kind == "mcp_approval_request":
                if head.id in ran_approvals:
                    continue
                calls.update(_requested_calls([raw]))
            self.items += to_provider_items(raw)
        self.changed = [*map(bytes, self.items)] != [*map(bytes, items)]

    def _answer_approval(
        self, ident: str, call: dict[str, Any], response: Mapping[str, Any], *, answered_since: bool
    ) -> bytes:
        """The result item of a call, empty if the call is to be run. `answered_since`: the model has answered since."""
        call_id = str(call.get("call_id"))
        if not response.get("approve"):
            reason = response.get("reason")
            return output_item(call_id, f"{_DENIED}: {reason}" if reason else f"{_DENIED}.")
        if answered_since:
            return output_item(call_id, f"{_LOST}.")
        if len(self.calls) == MOST_APPROVALS:
            raise BadRequest(f"input: more than {MOST_APPROVALS} calls are approved; approve fewer at a time", "input")
        self.calls.append(call)
        self.placeholders.append(output_item(call_id, ""))
        self.ids[call_id] = ident
        return self.placeholders[-1]


def fill_results(
    items: Sequence[bytes | Raw], placeholders: Sequence[bytes], results: Sequence[bytes]
) -> list[bytes | Raw]:
    """The items with `results` in place of the placeholders, which have the same order."""
    by_placeholder = {id(result_item): result for result_item, result in zip(placeholders, results, strict=True)}
    return [by_placeholder.get(id(raw), raw) for raw in items]


def _requested_calls(items: Sequence[bytes | Raw]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each approval request among the items: its id, and the call to approve."""
    for raw in items:
        if is_approval_request(raw):
            yield str(head_of(raw).id), decode_object(to_provider_items(raw)[0])


def _approval_of(ran_approvals: bytes | Raw) -> str:
    """The id of the approval request of a call that the gateway ran."""
    ident = decode_object(ran_approvals).get("approval_request_id")
    return str(ident) if ident else APPROVAL_ID + (head_of(ran_approvals).id or "").removeprefix(CALL_ID)
