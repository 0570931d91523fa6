"""Approvals of calls among the items of a request: each call is approved once, at a cost that grows with the items."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead_formats.providers.openai_responses.approvals import MAX_APPROVALS, Approvals
from fairlead_formats.providers.openai_responses.items import ItemHead, head_of
from fairlead_formats.providers.openai_responses.mcp_tools import APPROVAL_ID
from fairlead_formats.wire.protocol import BadRequest


def _items(*items: dict[str, Any]) -> list[Raw]:
    return [Raw(msgspec.json.encode(item)) for item in items]


def _request(number: int) -> dict[str, Any]:
    ident = f"{APPROVAL_ID}call_{number}"
    return {"type": "mcp_approval_request", "id": ident, "name": "demo__add", "arguments": "{}", "server_label": "demo"}


def _yes(number: int) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": f"{APPROVAL_ID}call_{number}", "approve": True}


def test_a_call_that_is_approved_twice_runs_once() -> None:
    approvals = Approvals(_items(_request(1), _yes(1), _yes(1), _yes(1)))
    assert [call["call_id"] for call in approvals.calls] == ["call_1"]
    assert len(approvals.items) == 2


def test_items_are_read_a_fixed_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def record_head(raw: bytes | Raw) -> ItemHead:
        read.append(raw)
        return head_of(raw)

    monkeypatch.setattr("fairlead_formats.providers.openai_responses.approvals.head_of", record_head)
    Approvals(_items(_request(1), *[_yes(1)] * 200))
    assert len(read) < 1000


def test_a_call_after_which_the_model_continued_is_not_run() -> None:
    approvals = Approvals(_items(_request(1), _yes(1), {"role": "assistant", "content": "So."}))
    assert not approvals.calls


def test_approvals_beyond_the_bound_are_refused() -> None:
    requests = [_request(number) for number in range(MAX_APPROVALS + 1)]
    responses = [_yes(number) for number in range(MAX_APPROVALS + 1)]
    assert len(Approvals(_items(*requests[1:], *responses[1:])).calls) == MAX_APPROVALS
    with pytest.raises(BadRequest, match="more than 128"):
        Approvals(_items(*requests, *responses))
