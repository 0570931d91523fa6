"""Hostile bytes of a client that calls tools over REST, in turns with requests for MCP: Hypothesis strategies.

The connection itself answers short requests for calls, and passes others on to uvicorn.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from fuzzed_gateway import BODY_BYTES
from fuzzinbound import FRAMING, VERBS, Conversation, chunk_body, garbage, good_requests, head
from gatewayworld import LEGACY

TARGETS: Final = (b"/v1/tool-calls", b"/v1/tool-calls", b"/v1/tool-calls?x=1", b"/v1/tool%2Dcalls", b"/v1/tool-calls/")
CALLS: Final = (
    b'{"format":"openai","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_@NUMBER@","type":'
    b'"function","function":{"name":"demo__echo","arguments":"{\\"n\\":@NUMBER@}"}}]}}'
)
NUMERIC: Final = b"0123456789+-.eE"
"""Bytes that would make another number of the call's."""
SHORT: Final = b"content-length: @LENGTH@"


@st.composite
def good_calls(draw: st.DrawFn) -> bytes:
    """A message with one call, in one of the ways in which HTTP can carry it."""
    target = draw(st.sampled_from(TARGETS))
    if draw(st.integers(0, 3)):
        return head(LEGACY, "ping", [SHORT], target) + CALLS
    sizes = draw(st.lists(st.integers(1, 200), max_size=4))
    return head(LEGACY, "ping", [b"transfer-encoding: chunked"], target) + chunk_body(CALLS, sizes, b"", b"")


@st.composite
def bad_calls(draw: st.DrawFn) -> bytes:
    """A request for calls that is wrong somewhere: its framing, its body, or its method."""
    target, how = draw(st.sampled_from(TARGETS)), draw(st.integers(0, 4))
    if how == 0:
        return head(LEGACY, "ping", [SHORT], target, draw(st.sampled_from(VERBS))) + CALLS
    if how == 1:
        return head(LEGACY, "ping", [SHORT], target) + CALLS[: draw(st.integers(0, len(CALLS) - 1))]
    if how == 2:
        at = draw(st.integers(0, len(CALLS) - 1))
        spoiled = draw(st.binary(max_size=3)).translate(None, NUMERIC)
        return head(LEGACY, "ping", [SHORT], target) + CALLS[:at] + spoiled + CALLS[at + 1 :]
    if how == 3:
        size = draw(st.sampled_from([BODY_BYTES - len(CALLS), BODY_BYTES + 1, 2 * BODY_BYTES]))
        return head(LEGACY, "ping", [SHORT], target) + CALLS + b" " * size
    return head(LEGACY, "ping", draw(st.sampled_from(FRAMING)), target) + CALLS


requests: Final = st.one_of(*[good_calls()] * 4, bad_calls(), bad_calls(), bad_calls(), good_requests(), garbage)
conversations: Final = st.builds(
    Conversation,
    st.lists(requests, min_size=1, max_size=4),
    st.just(1000) | st.just(1000) | st.integers(1, 1000),
    st.lists(st.integers(0, 1000), max_size=6).map(sorted),
    st.booleans(),
)
