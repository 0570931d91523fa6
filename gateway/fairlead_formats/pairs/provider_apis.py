"""Registry of the HTTP APIs of providers: a family that requests are sent to is a row. Pure module.

Imports no wire format, so that a configuration can be read without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_formats.providers.anthropic import api as anthropic
from fairlead_formats.providers.bedrock import api as bedrock
from fairlead_formats.providers.gemini import api as gemini
from fairlead_formats.providers.openai_chat import api as openai
from fairlead_formats.wire.provider_api import ProviderApi, ProviderKind, RequestHead

APIS: Final[Mapping[ProviderKind, ProviderApi]] = {
    api.kind: api for api in (openai.API, gemini.API, anthropic.API, bedrock.API)
}
_VERSION: Final = "v1"
_DEFAULT: Final[ProviderKind] = "openai"
"""API of requests to shared segments that no API owns: its clients send nothing that tells them apart."""


def kind_of(method: str, path: str, headers: Mapping[bytes, bytes], query: bytes) -> ProviderKind | None:
    """The kind of API that a request belongs to; None for a path that no provider's API has. Header names are in lower
    case.
    """
    if path.startswith(f"/{_VERSION}/{_VERSION}/"):  # clients that append the version to a base URL that has it
        path = path.removeprefix(f"/{_VERSION}")
    version, _, rest = path.removeprefix("/").partition("/")
    segment = rest.partition("/")[0]
    for api in APIS.values():
        if version in api.first_segments:
            return api.kind
    candidates = [api for api in APIS.values() if version == _VERSION and segment in api.segments]
    if len(candidates) < 2:
        return candidates[0].kind if candidates else None
    head = RequestHead(method, segment, rest, headers, query)
    return next((api.kind for api in candidates if api.owns(head)), _DEFAULT)
