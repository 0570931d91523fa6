"""Calls of our tools that wait for the client's approval, among the items of a request. Pure module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Raw

from fairlead_llm.raw_json import decoded
from fairlead_llm.responses.items import CALL, OUTPUT, head_of
from fairlead_llm.responses.own_servers import APPROVAL_ID, CALL_ID, as_called, output_item
from fairlead_llm.wire import BadRequest

MOST_APPROVALS: Final = 128
"""Approvals in one request."""
_DENIED: Final = "The user did not approve this call"
_LOST: Final = "The result of this call is not known any more"


class Approvals:
    """The items of a request as the provider knows them, and the calls among them that were approved just now."""

    def __init__(self, items: Sequence[Raw], known: Sequence[bytes] = ()) -> None:
        """`known`: calls of an earlier answer that waits for approvals, where the provider keeps that.
        Raises BadRequest for too many approvals.
        """
        self.calls: list[dict[str, Any]] = []
        """To be run before the model is asked."""
        self.changed = False
        """Whether any item is not as it came."""
        if not any(b"fairlead_" in bytes(item) for item in items):
            self.items: list[bytes | Raw] = [*items]
            return
        shown = {(head_of(item).id or "").removeprefix(CALL_ID) for item in items if b'"mcp_call"' in bytes(item)}
        calls = {str(call.get("call_id")): call for call in map(decoded, known)}
        last = max((place for place, item in enumerate(items) if head_of(item).of_model), default=-1)
        heard: set[str] = set()
        self.items = []
        for place, raw in enumerate(items):
            head = head_of(raw)
            if head.kind == "mcp_approval_response":
                said = decoded(raw)
                ident = str(said.get("approval_request_id", ""))
                call_id = ident.removeprefix(APPROVAL_ID)
                if call_id in shown or (call_id in calls and ident != call_id):
                    if call_id not in shown and call_id not in heard:  # a second one would run the call again
                        heard.add(call_id)
                        self.items.append(self._answered(calls[call_id], said, over=place < last))
                    continue
            if head.kind == "mcp_approval_request" and (head.id or "").removeprefix(APPROVAL_ID) in shown:
                continue
            for each in as_called(raw):
                self.items.append(each)
                if head_of(each).kind == CALL:
                    call = decoded(each)
                    calls[str(call.get("call_id"))] = call
        self.changed = [*map(bytes, self.items)] != [*map(bytes, items)]

    def _answered(self, call: dict[str, Any], said: Mapping[str, Any], *, over: bool) -> bytes:
        """The result of a call, empty until it was run. `over`: the model went on since."""
        call_id = str(call.get("call_id"))
        if not said.get("approve"):
            reason = said.get("reason")
            return output_item(call_id, f"{_DENIED}: {reason}" if reason else f"{_DENIED}.")
        if over:
            return output_item(call_id, f"{_LOST}.")
        if len(self.calls) == MOST_APPROVALS:
            raise BadRequest(f"input: more than {MOST_APPROVALS} calls are approved: approve fewer at a time", "input")
        self.calls.append(call)
        return output_item(call_id, "")


def filled(items: Sequence[bytes | Raw], results: Mapping[str, bytes]) -> list[bytes | Raw]:
    """The items with results in their places, by id of the call."""
    found: list[bytes | Raw] = []
    for raw in items:
        head = head_of(raw)
        found.append(results.get(head.call_id or "", raw) if head.kind == OUTPUT else raw)
    return found
