"""Settings of models, of the endpoints for requests to models, and of speech sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from fairlead_api.environment import EnvironmentSettings, prefixed


class LlmSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("llm_")):
    """Requests to models."""

    rounds: Annotated[int, Meta(ge=1, le=100)] = 8
    """Maximum number of answers with tool calls that a model gives in one request to an endpoint for models. One
    further answer is requested without tool calls.
    """
    seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    """Maximum duration in seconds of a request to an endpoint for models, including the model and its tools."""
    tokens: Annotated[int, Meta(ge=0)] = 0
    """Number of tokens of a request to an endpoint for models after which its model may call no further tools; 0: no
    limit.
    """
    request_bytes: Annotated[int, Meta(ge=65_536, le=67_108_864)] = 10 << 20
    """Maximum size in bytes of a request to an endpoint for models, including images. Larger requests are refused with
    413.
    """
    requests: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Maximum number of requests to endpoints for models in progress. Further requests are refused with 503."""
    requests_each: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Maximum number of requests in progress to endpoints for models of one agent, or of one address without a
    credential. Further requests are refused with 429. 0: a quarter of the maximum for all, rounded up.
    """


class SpeechSessionSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("speech_")):
    """Speech sessions."""

    sessions: Annotated[int, Meta(ge=1, le=100_000)] = 200
    """Maximum number of open speech sessions. Further sessions are refused with 503."""
    sessions_each: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Maximum number of open speech sessions of one agent, or of one address without a credential. Further sessions are
    refused with 429. 0: a quarter of the maximum for all, rounded up.
    """
    provider_mcp: bool = False
    """Whether clients of speech sessions may let the provider call MCP servers, which bypasses policies
    and audit log.
    """
    client_secrets: bool = False
    """Whether `POST /v1/realtime/client_secrets` makes secrets with which clients connect to the provider directly."""


class ModelSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Models."""

    routes: Path | None = None
    """YAML file about models: `routes` (named lists of models), `models` (context windows that override those in the
    package) and `liveModels` (a model server that lists context windows).
    """
    llm: LlmSettings = LlmSettings()
    speech: SpeechSessionSettings = SpeechSessionSettings()
