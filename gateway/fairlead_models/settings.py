"""Settings of models, and of the endpoints in front of those that write and that speak."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from fairlead_api.environment import EnvironmentSettings, prefixed


class LlmSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("llm_")):
    """Requests to models."""

    rounds: Annotated[int, Meta(ge=1, le=100)] = 8
    """Answers of a model that may call tools, in one request to an endpoint in front of models; one more may not."""
    seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    """For such a request, with all that the model and its tools do."""
    tokens: Annotated[int, Meta(ge=0)] = 0
    """Tokens that a model may read and write in such a request before it may call no further tool; 0: any number."""
    request_bytes: Annotated[int, Meta(ge=65_536, le=67_108_864)] = 10 << 20
    """Bytes of such a request, images included; a longer one is refused with 413."""
    requests: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Such requests in progress at the same time; further ones are refused with 503."""
    requests_each: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Those of one agent, or of one address without a credential; further ones are refused with 429. 0: a quarter of
    all, rounded up."""


class SpeechSessionSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("speech_")):
    """Speech sessions."""

    sessions: Annotated[int, Meta(ge=1, le=100_000)] = 200
    """Speech sessions at the same time, in front of models that speak; further ones are refused with 503."""
    sessions_each: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Those of one agent, or of one address without a credential; further ones are refused with 429. 0: a quarter of
    all, rounded up."""
    provider_mcp: bool = False
    """Whether clients of speech sessions may have the provider call MCP servers by itself, past policies and audit."""
    client_secrets: bool = False
    """Whether `POST /v1/realtime/client_secrets` makes secrets with which a client speaks to the provider directly."""


class ModelSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Models."""

    routes: Path | None = None
    """YAML file about models: `routes` (named lists that `/v1/plan` chooses from), `models` (windows in place of those
    that ship with the package) and `liveModels` (a model server that tells them).
    """
    llm: LlmSettings = LlmSettings()
    speech: SpeechSessionSettings = SpeechSessionSettings()
