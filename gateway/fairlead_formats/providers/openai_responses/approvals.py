"""Calls of the gateway's tools that wait for the client's approval, among the items of a request. Pure module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Raw

from fairlead_formats.providers.openai_responses.items import head_of
from fairlead_formats.providers.openai_responses.own_servers import (
    APPROVAL_ID,
    CALL_ID,
    as_called,
    asks_approval,
    output_item,
)
from fairlead_formats.wire.protocol import BadRequest
from fairlead_formats.wire.raw_json import decode_object

MOST_APPROVALS: Final = 128
"""Approvals in one request."""
_DENIED: Final = "The user did not approve this call"
_LOST: Final = "The result of this call is not known any more"


class Approvals:
    """The items of a request as the provider knows them, and the calls among them that this request approves."""

    def __init__(self, items: Sequence[Raw], pending: Sequence[bytes] = ()) -> None:
        """`pending`: requests for approvals in an earlier answer, where the provider keeps that. Raises BadRequest for
        too many approvals.
        """
        self.calls: list[dict[str, Any]] = []
        """Calls to run before the model is asked."""
        self.places: list[bytes] = []
        """Items that stand for their results, in the same order: known by which object they are, as an id of a call may
        come in every answer.
        """
        self.ids: dict[str, str] = {}
        """Ids of the approved requests for approval, by ids of the calls."""
        self.changed = False
        """Whether any item differs from the client's."""
        if not any(b"fairlead_" in bytes(item) for item in items):
            self.items: list[bytes | Raw] = [*items]
            return
        shown = {_approval_of(item) for item in items if b'"mcp_call"' in bytes(item)}
        calls = dict(_requested_calls(pending))
        last = max((index for index, item in enumerate(items) if head_of(item).of_model), default=-1)
        heard: set[str] = set()
        self.items = []
        for index, raw in enumerate(items):
            head = head_of(raw)
            if head.kind == "mcp_approval_response":
                response = decode_object(raw)
                ident = str(response.get("approval_request_id", ""))
                if ident in shown or ident in calls:
                    if ident not in shown and ident not in heard:  # a second one would run the call again
                        heard.add(ident)
                        self.items.append(self._answer_approval(ident, calls[ident], response, over=index < last))
                    continue
            if head.kind == "mcp_approval_request":
                if head.id in shown:
                    continue
                calls.update(_requested_calls([raw]))
            self.items += as_called(raw)
        self.changed = [*map(bytes, self.items)] != [*map(bytes, items)]

    def _answer_approval(self, ident: str, call: dict[str, Any], response: Mapping[str, Any], *, over: bool) -> bytes:
        """The result of a call, empty until the call has run. `over`: the model has gone on since."""
        call_id = str(call.get("call_id"))
        if not response.get("approve"):
            reason = response.get("reason")
            return output_item(call_id, f"{_DENIED}: {reason}" if reason else f"{_DENIED}.")
        if over:
            return output_item(call_id, f"{_LOST}.")
        if len(self.calls) == MOST_APPROVALS:
            raise BadRequest(f"input: more than {MOST_APPROVALS} calls are approved: approve fewer at a time", "input")
        self.calls.append(call)
        self.places.append(output_item(call_id, ""))
        self.ids[call_id] = ident
        return self.places[-1]


def fill_results(items: Sequence[bytes | Raw], places: Sequence[bytes], results: Sequence[bytes]) -> list[bytes | Raw]:
    """The items with results in their places, which are in the same order."""
    by_place = {id(result_item): result for result_item, result in zip(places, results, strict=True)}
    return [by_place.get(id(raw), raw) for raw in items]


def _requested_calls(items: Sequence[bytes | Raw]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls that requests for approval are about, with the ids of these."""
    for raw in items:
        if asks_approval(raw):
            yield str(head_of(raw).id), decode_object(as_called(raw)[0])


def _approval_of(shown: bytes | Raw) -> str:
    """Id of the request for approval that a call which was run here belongs to."""
    ident = decode_object(shown).get("approval_request_id")
    return str(ident) if ident else APPROVAL_ID + (head_of(shown).id or "").removeprefix(CALL_ID)
