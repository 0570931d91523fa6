"""Registry of the HTTP APIs of providers. It tells to which of these APIs a client's request belongs. Pure module.

`APIS` has one entry for each kind of provider, such as `openai` for all APIs that are compatible with OpenAI's. The
module imports no wire format, so that programs that only read a configuration load quickly.
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
_DEFAULT_KIND: Final[ProviderKind] = "openai"
"""Kind for a request that no API recognizes, to a path that several APIs have: OpenAI's clients send no header that
identifies them.
"""


def kind_of(method: str, path: str, headers: Mapping[bytes, bytes], query: bytes) -> ProviderKind | None:
    """The kind of API that a request belongs to; None for a path that no provider's API has. Header names are in lower
    case.
    """
    if path.startswith(f"/{_VERSION}/{_VERSION}/"):  # some clients append the version to a base URL that ends with it
        path = path.removeprefix(f"/{_VERSION}")
    first, _, rest = path.removeprefix("/").partition("/")
    second = rest.partition("/")[0]
    for api in APIS.values():
        if first in api.first_segments:
            return api.kind
    candidates = [api for api in APIS.values() if first == _VERSION and second in api.segments]
    if len(candidates) < 2:
        return candidates[0].kind if candidates else None
    head = RequestHead(method, second, rest, headers, query)
    return next((api.kind for api in candidates if api.owns(head)), _DEFAULT_KIND)
