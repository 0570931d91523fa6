"""Compresses tool results with a model, through an OpenAI-compatible `POST /v1/chat/completions` (vLLM, LiteLLM)."""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_mcp.errors import ConnectFailed, HttpRefused, McpError, ProtocolError, TooLarge
from fairlead_offers.models.model_api import decode_answer, guarded_api
from fairlead_offers.workers.heavy_work import WorkerThread
from fairlead_search.result_compression import CompressionFailed, CompressorConfig, chat_request, check_answer

MAX_ANSWER_BYTES: Final = 1 << 20
MAX_CACHED_BYTES: Final = 8 << 20
"""Maximum number of bytes of cached answers. The least recently used answers are dropped."""
MAX_AT_ONCE: Final = 8
"""Maximum number of concurrent requests to the endpoint."""
COOL_DOWN: Final = 10.0
"""Seconds after a failure during which no request is sent, so that calls do not wait for an unavailable endpoint."""
_encode: Final = msgspec.msgpack.Encoder().encode

log = logging.getLogger(__name__)


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class ChatCompressor:
    """Compressor that lets a model shorten texts, verifies the model's answers and caches them."""

    def __init__(
        self,
        config: CompressorConfig,
        counts: SearchCounts,
        worker: WorkerThread,
        max_cached_bytes: int = MAX_CACHED_BYTES,
    ) -> None:
        self._max_cached_bytes = max_cached_bytes
        self._worker = worker
        self.model = config.model
        self._api = guarded_api(config, seconds=config.seconds, max_bytes=MAX_ANSWER_BYTES)
        self._counts = counts
        self._cached_texts: OrderedDict[bytes, dict[str, str]] = OrderedDict()
        self._cached_bytes = 0
        self._running_requests = 0
        self._failed_at = float("-inf")
        self._uses_newer_members = False
        """Whether the model has refused `max_tokens` and `temperature`, as OpenAI's reasoning models do. Requests then
        have `max_completion_tokens` and no temperature.
        """

    async def compress(self, question: str, sources: Mapping[str, str], budget_tokens: int) -> Mapping[str, str]:
        """Extract the facts that help with a question from `sources`, the texts by source. Returns shorter texts by
        source. Raises CompressionFailed.
        """
        key = blake2b(_encode((question, [*sources.items()], budget_tokens)), digest_size=32).digest()
        cached_texts = self._cached_texts.get(key)
        if cached_texts is not None:
            self._cached_texts.move_to_end(key)
            self._counts.count_compression("cache")
            return cached_texts
        try:
            texts = await self._request(question, sources, budget_tokens)
        except CompressionFailed:
            self._counts.count_compression("failed")
            raise
        self._counts.count_compression("model")
        self._remember(key, texts)
        return texts

    async def _request(self, question: str, sources: Mapping[str, str], budget_tokens: int) -> dict[str, str]:
        """Request a compression from the model, and verify it. Raises CompressionFailed."""
        if time.monotonic() - self._failed_at < COOL_DOWN:
            raise CompressionFailed("failed a moment ago")
        if self._running_requests >= MAX_AT_ONCE:
            raise CompressionFailed("is busy")
        nonce = secrets.token_hex(12)
        self._running_requests += 1
        try:
            completion = await self._complete(chat_request(self.model, question, sources, budget_tokens, nonce))
        except McpError as error:
            self._failed_at = time.monotonic()
            log.warning("Passages are shown word for word, as %s failed to compress results: %s", self.model, error)
            raise CompressionFailed(_failure(error)) from error
        finally:
            self._running_requests -= 1
        message = completion.choices[0].message if completion.choices else _Message()
        if message.tool_calls or message.function_call is not None or not message.content:
            raise CompressionFailed("answered something other than text")
        text = message.content
        texts = await self._worker.do(lambda: check_answer(text, sources, nonce))
        if not texts:
            raise CompressionFailed("wrote nothing that the results confirm")
        return texts

    async def _complete(self, body: dict[str, Any]) -> _Completion:
        """Send a request in the form that the model accepts. Raises McpError."""
        try:
            answer = await self._api.post(
                "/chat/completions", _for_newer_models(body) if self._uses_newer_members else body
            )
        except HttpRefused as error:
            if error.status not in (400, 422) or self._uses_newer_members:
                raise
            answer = await self._api.post("/chat/completions", _for_newer_models(body))
            self._uses_newer_members = True
        completion: _Completion = await decode_answer(answer, _Completion)
        return completion

    def _remember(self, key: bytes, texts: dict[str, str]) -> None:
        previous_texts = self._cached_texts.pop(key, None)  # an equal request may have finished during this request
        self._cached_texts[key] = texts
        self._cached_bytes += _size(texts) - (_size(previous_texts) if previous_texts is not None else 0)
        while self._cached_bytes > self._max_cached_bytes:
            _, oldest = self._cached_texts.popitem(last=False)
            self._cached_bytes -= _size(oldest)


def _failure(error: McpError) -> str:
    """End of a sentence about the model that failed."""
    if isinstance(error, HttpRefused):
        return f"answered with status {error.status}"
    if isinstance(error, ConnectFailed):
        return "cannot be reached"
    if isinstance(error, ProtocolError | TooLarge):
        return "gave an answer that cannot be read"
    return "did not answer"


def _for_newer_models(body: dict[str, Any]) -> dict[str, Any]:
    """Convert a request for OpenAI's reasoning models, which refuse `max_tokens` and `temperature`."""
    members = {name: value for name, value in body.items() if name not in ("max_tokens", "temperature")}
    return {**members, "max_completion_tokens": body["max_tokens"]}


def _size(texts: Mapping[str, str]) -> int:
    return 200 + sum(len(text.encode("utf-8", "replace")) for text in texts.values())
