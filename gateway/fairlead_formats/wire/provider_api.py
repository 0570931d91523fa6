"""Declaration of one provider's HTTP API: its paths, its key, its lists of models. Pure module.

Each family of APIs declares its API in `api.py` of its folder. Everything that differs between the HTTP APIs is in the
declaration, so that the gateway's endpoints and its requests to providers have no code for particular families.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

ProviderKind = Literal["openai", "anthropic", "gemini", "bedrock"]
"""Kind of a provider to which requests are sent, as configurations name it."""


class RequestHead(msgspec.Struct, frozen=True):
    """Head of a client's request, from which an API tells whether the request is meant for it."""

    method: str
    segment: str
    """First segment of the path below the version."""
    rest: str
    """Path below the version."""
    headers: Mapping[bytes, bytes]
    """Names in lower case."""
    query: bytes


class ApiOperation(msgspec.Struct, frozen=True):
    """Operation that the path of a POST request names."""

    wire: str
    """Key of the operation's wire format in `pairs.families.CLIENT_FORMATS`."""
    counts: bool = False
    """Whether the client wants to know the number of tokens of the request, not an answer."""
    model: str | None = None
    """Model in the path; None if the body names it."""
    stream: bool | None = None
    """Whether the path asks for a stream; None if the body says whether it does."""


class ListedModel(msgspec.Struct, frozen=True):
    """A model that callers may use, or a route over several models."""

    id: str
    owner: str
    """Name of the model's provider; `fairlead` for a route."""
    context: int
    """Size of the model's context window in tokens."""
    max_input: int
    """Maximum number of tokens of a request."""


class ProviderApi(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's HTTP API."""

    kind: ProviderKind
    base_versions: tuple[str, ...] = ()
    """Versions, such as `/v1`, with which the paths of requests begin and with which a base URL may also end."""
    key_header: str
    key_prefix: str = ""
    """Text before the key in the value of `key_header`."""
    signing_service: str = ""
    """Name of the service in AWS signatures of requests without a key; empty: requests are not signed."""
    stream_type: str = "text/event-stream"
    """Media type of streamed answers."""
    headers: Mapping[str, str] = {}
    """Headers that every request needs, with the values to send unless the configuration has other values."""
    first_segments: frozenset[str] = frozenset()
    """First segments of paths that no other API has, such as a version."""
    segments: frozenset[str]
    """First segments of the API's paths below `/v1`, whether the gateway serves them or not. Several APIs may have the
    same segment.
    """
    owns: Callable[[RequestHead], bool] = lambda _: False
    """Whether a request comes from a client of this API, if several APIs have the first segment of its path."""
    speech: bool = False
    """Whether the gateway serves speech sessions (WebSockets) of this API."""
    models_paths: tuple[str, ...]
    """Paths at which the gateway serves the list of models."""
    operations: tuple[str, ...]
    """Methods and paths that the gateway serves, as error messages list them."""
    operation: Callable[[str, Mapping[str, str]], ApiOperation | None]
    """Operation of a POST request, by its path and its query; None for a path that is not served."""
    model: Callable[[ListedModel], dict[str, Any]]
    """One model as a document of this API."""
    models: Callable[[Sequence[ListedModel]], dict[str, Any]]
    """All models as a document of this API, in one page."""
