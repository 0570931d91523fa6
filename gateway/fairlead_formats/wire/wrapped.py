"""Base classes for requests, answers and streams that wrap the requests, answers and streams of another wire format.
Pure module.

All members are delegated to `inner`; a subclass overrides the members that its clients see differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Raw

from fairlead_formats.wire.protocol import CallKey, InnerCall, TranslationLosses, WireAnswer, WireRequest, WireStream

Inner = TypeVar("Inner", bound=WireAnswer | WireStream)


class WrappedRequest:
    """Base of requests around `inner`."""

    def __init__(self, inner: WireRequest) -> None:
        self.inner = inner
        self.model = inner.model
        self.stream = inner.stream
        self.gateway_options = inner.gateway_options
        self.no_injection = inner.no_injection
        self.client_messages = inner.client_messages

    @property
    def messages(self) -> Sequence[bytes | Raw]:
        return self.inner.messages

    @messages.setter
    def messages(self, messages: Sequence[bytes | Raw]) -> None:
        self.inner.messages = messages

    @property
    def tool_names(self) -> frozenset[str]:
        return self.inner.tool_names

    @property
    def tools(self) -> bytes:
        return self.inner.tools

    @property
    def system(self) -> bytes:
        return self.inner.system

    @property
    def losses(self) -> TranslationLosses | None:
        return self.inner.losses

    @property
    def restored_bytes(self) -> int:
        return self.inner.restored_bytes


class _WrappedOutput(Generic[Inner]):
    """Members of an answer or a stream that are delegated unchanged."""

    def __init__(self, inner: Inner) -> None:
        self.inner = inner

    @property
    def message(self) -> Mapping[str, Any]:
        return self.inner.message

    @property
    def usage(self) -> Mapping[str, Any]:
        return self.inner.usage

    @property
    def malformed_call(self) -> bool:
        return self.inner.malformed_call

    @property
    def request_messages(self) -> Sequence[bytes]:
        return self.inner.request_messages


class WrappedAnswer(_WrappedOutput[WireAnswer]):
    """Base of whole answers around `inner`."""

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        self.inner.unwrap(calls)


class WrappedStream(_WrappedOutput[WireStream]):
    """Base of clients' streams around `inner`."""

    @property
    def done(self) -> bool:
        return self.inner.done

    @property
    def ended(self) -> bool:
        return self.inner.ended

    @property
    def turn_key(self) -> CallKey | None:
        return self.inner.turn_key
