"""Providers of models, and the resolution of model names in requests to providers. Does no I/O.

The composition root reads them from the installation's configuration. Example:

    providers:
      openai: {baseUrl: "https://api.openai.com/v1", keyEnv: OPENAI_API_KEY, models: ["gpt-*", "o4-*"]}
      claude: {kind: anthropic, baseUrl: "https://api.anthropic.com", keyEnv: ANTHROPIC_API_KEY, models: ["claude-*"]}
      aws: {kind: bedrock, baseUrl: "https://bedrock-runtime.us-east-1.amazonaws.com", models: ["us.anthropic.*"]}
      local: {baseUrl: "http://vllm.models:8000/v1", models: [our-qwen]}
      voice: {kind: cascaded, stt: {…}, llm: our-qwen, tts: {…}}  # see CascadedProvider
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from fairlead_formats.pairs.provider_apis import APIS
from fairlead_formats.tokens.named_entries import WrongEntries, convert_entries
from fairlead_formats.tokens.routes import ModelChoice, ModelRoute
from fairlead_formats.wire.provider_api import ProviderKind
from fairlead_models.cascaded_engines import CASCADED, CascadedProvider, Seconds, SlowTurns

MAX_NAME: Final = 256
"""Maximum number of characters of a model name in a request."""
ROUTE_PREFIX: Final = "fairlead/"
"""Prefix of a route's name in the `model` of a request."""
OPENAI_HOST: Final = "api.openai.com"
CallerKey = Literal["Refuse", "Allow", "Require"]
_KINDS_WITH_SPEECH: Final = tuple(api.kind for api in APIS.values() if api.speech)
"""Kinds of providers with an API for speech sessions."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_DOTS: Final = frozenset({".", ".."})
_PATTERN: Final = re.compile(r"[*?[]")
_AWS_HOST: Final = re.compile(r"(?:^|[.])[a-z-]*runtime[a-z-]*\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d+)\.")
"""Host of an AWS runtime API, or of a VPC endpoint for such an API, with its region."""
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_GATEWAY_HEADERS: Final = frozenset(
    {
        *(api.key_header for api in APIS.values()),
        "content-length",
        "content-type",
        "host",
        "accept-encoding",
        "connection",
        "x-fairlead-provider-key",
        "x-amz-date",
        "x-amz-security-token",
    }
)
"""Headers that `headers` of a provider may not set, because the gateway sets them."""
_LIST_HEADERS: Final = frozenset({"anthropic-beta"})
"""Headers in which the values of the client and of the configuration are combined."""


class InvalidProvider(ValueError):
    """Invalid configuration of providers. The message has the location."""


class UnknownModel(LookupError):
    """Model name that no provider serves. The message lists the models that exist."""


class ProviderKeyRefused(Exception):
    """Request with a key for a provider that does not accept callers' keys, or without a key that the provider
    requires.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status: 401 for a missing key, 403 for a key that is not accepted."""


class Provider(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """API of a provider of models."""

    base_url: str
    """Base URL of the API. `openai`: with the version, as in `https://api.openai.com/v1`, to which `/chat/completions`
    is appended. `anthropic` and `gemini`: without the version, as in `https://api.anthropic.com` and
    `https://generativelanguage.googleapis.com`, to which `/v1/messages` and `/v1beta/models/…` are appended; a version
    at the end is ignored. `bedrock`: as in `https://bedrock-runtime.us-east-1.amazonaws.com`, to which `/model/…` is
    appended.
    """
    kind: ProviderKind = "openai"
    """Wire format. `openai` is also the format of compatible servers such as vLLM, Ollama and LiteLLM."""
    key_env: str | None = None
    """Environment variable with the API key."""
    key_file: str | None = None
    """File with the API key. It is read for each request, so that a mounted Secret may change."""
    caller_key: CallerKey = "Refuse"
    """Whether callers may (`Allow`) or must (`Require`) send their own key for the provider, which is then used in
    place of `keyEnv` or `keyFile`.
    """
    headers: Mapping[str, str] = {}
    """Additional headers of all requests."""
    models: tuple[str, ...] = ()
    """Names of models that requests may use, where `*` matches any text. All models also have the name
    `PROVIDER/MODEL`.
    """
    connect_seconds: Seconds = 5.0
    """Maximum time to open a connection, with name lookup and TLS."""
    idle_seconds: Seconds = 120.0
    """Maximum time without a byte of an answer, both before its first byte and within it."""
    stream_usage: bool = True
    """Whether the API supports `stream_options.include_usage`, for the kind `openai`."""
    slow_turns: SlowTurns | None = None
    """Turns of speech sessions that a cascaded engine answers, for the kinds `openai` and `gemini`."""
    responses: bool | None = None
    """Whether the API has `/responses`, for the kind `openai`. By default only OpenAI's own API has it."""

    region: str | None = None
    """AWS region for which requests without a key are signed, for the kind `bedrock`. By default the region in
    `baseUrl`; if it has none, requests are not signed.
    """

    @property
    def signing_region(self) -> str:
        """AWS region for which requests without a key are signed; empty if they are not signed."""
        if not APIS[self.kind].signing_service:
            return ""
        host_match = _AWS_HOST.search(urlsplit(self.base_url).hostname or "")
        return self.region or (host_match["region"] if host_match is not None else "")

    @property
    def speaks_responses(self) -> bool:
        """Whether the API accepts requests in the format of OpenAI Responses."""
        is_openai = urlsplit(self.base_url).hostname == OPENAI_HOST
        return self.kind == "openai" and (is_openai if self.responses is None else self.responses)

    def url(self, path: str) -> str:
        """URL of a path of the API, such as `/chat/completions`, `/v1/messages` or
        `/v1beta/models/MODEL:generateContent`.
        """
        base = self.base_url.rstrip("/")
        for version in APIS[self.kind].base_versions:
            base = base.removesuffix(version)
        return base + path

    def request_headers(self, key: str, client_headers: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Headers of a request, with lower-case names. `key`: API key; empty: none. The configured headers override
        `client_headers`, except for lists, which are combined.
        """
        api = APIS[self.kind]
        headers = {**api.headers, **client_headers}
        for name, value in ((name.lower(), value) for name, value in self.headers.items()):
            headers[name] = f"{headers[name]},{value}" if name in _LIST_HEADERS and name in headers else value
        if key:
            headers[api.key_header] = api.key_prefix + key
        return headers


class ModelTarget(msgspec.Struct, frozen=True):
    """Model at a provider."""

    provider: str
    """Name of the provider in the configuration."""
    model: str
    """Name of the model at the provider."""


class Providers:
    """All providers in the order of the configuration, and the routes, which are lists of their models."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        routes: Mapping[str, ModelRoute],
        cascaded: Mapping[str, CascadedProvider] = MappingProxyType({}),
    ) -> None:
        """`cascaded`: cascaded speech engines, which use models of the providers. Raises InvalidProvider, also if a
        route has a model that no provider serves; routes are not checked if there are no providers.
        """
        for name, provider in providers.items():
            _check_provider(name, provider)
        self.by_name = dict(providers)
        self.cascaded = dict(cascaded)
        self.routes = routes
        for name, engine in self.cascaded.items():
            self._check_cascaded(name, engine)
        for name, provider in providers.items():
            slow_turns = provider.slow_turns
            if slow_turns is not None and (
                provider.kind not in _KINDS_WITH_SPEECH or slow_turns.engine not in self.cascaded
            ):
                raise InvalidProvider(
                    f"providers: {name}: slowTurns is allowed only for the kinds {', '.join(_KINDS_WITH_SPEECH)}, and "
                    "its engine must be a provider of the kind cascaded"
                )
        for name, route in routes.items() if providers else ():
            try:
                for choice in route.models:
                    self.target(model_of(choice))
            except UnknownModel as error:
                raise InvalidProvider(f"routes: {name}: {error}") from error

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def targets(
        self, model_name: str, *, keyed: bool = False, spoken: bool = False
    ) -> tuple[ModelRoute, list[ModelTarget]]:
        """Resolve the `model` of a request. Returns the route, and its models with their providers in the order in
        which they are tried. The name of a model counts as a route with only this model. `keyed`: whether the request
        has its own key for the provider. If so, providers that do not accept callers' keys are left out; if not,
        providers that require such a key are left out. `spoken`: whether cascaded engines are included. Raises
        UnknownModel, and ProviderKeyRefused if no provider remains.
        """
        if len(model_name) > MAX_NAME:  # names become keys of caches and breakers, so their length is limited
            raise UnknownModel(
                f"no provider serves a model {model_name[:128]!r}: its name has more than {MAX_NAME} characters"
            )
        if not model_name.startswith(ROUTE_PREFIX):
            usable_targets = self._without_engines(model_name, [self.target(model_name)], spoken)
            return ModelRoute((model_name,), reserved_output_tokens=0), self._with_key(usable_targets, keyed)
        route = self.routes.get(model_name.removeprefix(ROUTE_PREFIX))
        if route is None:
            route_names = ", ".join(sorted(f"{ROUTE_PREFIX}{name}" for name in self.routes)) or "none"
            raise UnknownModel(f"the route {model_name[:128]!r} does not exist; routes: {route_names}")
        usable_targets = self._without_engines(
            model_name, [self.target(model_of(choice)) for choice in route.models], spoken
        )
        return route, self._with_key(usable_targets, keyed)

    def check_key(self, name: str, *, keyed: bool) -> None:
        """Check that a provider accepts a request with the caller's own key (`keyed`), or without such a key. Raises
        ProviderKeyRefused.
        """
        self._with_key([ModelTarget(name, "")], keyed)

    def _without_engines(self, model_name: str, targets: list[ModelTarget], spoken: bool) -> list[ModelTarget]:
        """Targets without cascaded engines, unless `spoken` is true. Raises UnknownModel if no target remains."""
        usable_targets = [target for target in targets if spoken or target.provider not in self.cascaded]
        if not usable_targets:
            raise UnknownModel(
                f"{model_name[:128]!r} is a cascaded engine: open a speech session with it at /v1/realtime"
            )
        return usable_targets

    def _check_cascaded(self, name: str, engine: CascadedProvider) -> None:
        """Check the configuration of a cascaded engine. Raises InvalidProvider."""
        _check_name(name)
        if name in self.by_name:
            raise InvalidProvider(f"providers: {name} is declared twice: rename one of them")
        for part, backend in (("stt", engine.stt), ("tts", engine.tts)):
            _check_endpoint(f"{name}: {part}", backend.base_url, backend.key_env, backend.key_file, backend.headers)
        try:
            self.targets(engine.llm)
        except (UnknownModel, ProviderKeyRefused) as error:
            raise InvalidProvider(f"providers: {name}: llm: {error}") from error

    def _with_key(self, targets: list[ModelTarget], keyed: bool) -> list[ModelTarget]:
        """Targets whose providers accept a request with the caller's own key (`keyed`), or without such a key. Raises
        ProviderKeyRefused if no provider does.
        """
        refusing_setting = "Refuse" if keyed else "Require"
        usable_targets = [target for target in targets if self._caller_key(target.provider) != refusing_setting]
        if usable_targets:
            return usable_targets
        name = targets[0].provider
        if keyed:
            reason = f"the provider {name} does not accept keys of callers (its setting callerKey is Refuse)"
            raise ProviderKeyRefused(403, f"{reason}: remove x-fairlead-provider-key")
        reason = f"the provider {name} requires a key of the caller (its setting callerKey is Require)"
        raise ProviderKeyRefused(401, f"{reason}: send it in x-fairlead-provider-key")

    def kind_of(self, target: ModelTarget) -> str:
        """Kind of a model's provider, or `cascaded`."""
        return CASCADED if target.provider in self.cascaded else self.by_name[target.provider].kind

    def _caller_key(self, name: str) -> CallerKey:
        provider = self.by_name.get(name)
        return "Refuse" if provider is None else provider.caller_key

    def _models(self) -> list[tuple[str, tuple[str, ...]]]:
        """Models of all providers and engines, by name."""
        providers = [(name, provider.models) for name, provider in self.by_name.items()]
        return providers + [(name, engine.models) for name, engine in self.cascaded.items()]

    def list_models(self) -> dict[str, str]:
        """Names of models, each with its provider: all names in `models` of the configuration except patterns with
        `*`.
        """
        names: dict[str, str] = {}
        for _, models in self._models():
            for model in models:
                if not _PATTERN.search(model):
                    names.setdefault(model, self.target(model).provider)
        return names

    def target(self, model_name: str) -> ModelTarget:
        """Find the provider of a model: the provider in `PROVIDER/MODEL`, else the first provider with a matching name
        in its `models`. Raises UnknownModel.
        """
        if not _DOTS.isdisjoint(
            model_name.split("/")
        ):  # Gemini's URLs contain the name, where dots would change the path
            raise UnknownModel(f"{model_name[:128]!r} is not a valid model name: no part of it may be `.` or `..`")
        provider_name, _, provider_model = model_name.partition("/")
        if provider_model and (provider_name in self.by_name or provider_name in self.cascaded):
            return ModelTarget(provider_name, provider_model)
        for name, models in self._models():
            if any(fnmatchcase(model_name, pattern) for pattern in models):
                return ModelTarget(name, model_name)
        provider_names = ", ".join([*self.by_name, *self.cascaded]) or "none"
        raise UnknownModel(
            f"no provider serves a model {model_name[:128]!r}: add it to `models` of a provider, or use PROVIDER/MODEL "
            f"as the name (providers: {provider_names})"
        )


def read_providers(
    document: object, routes: Mapping[str, ModelRoute], added: Mapping[str, Provider] | None = None
) -> Providers:
    """Read providers from decoded configuration, and append the providers in `added`. Raises InvalidProvider."""
    try:
        entries = convert_entries(document, dict[str, Any])
        engine_entries = {name: entry for name, entry in entries.items() if entry.get("kind") == CASCADED}
        cascaded = convert_entries(engine_entries, CascadedProvider)
        provider_entries = {name: entry for name, entry in entries.items() if name not in engine_entries}
        providers = convert_entries(provider_entries, Provider)
    except WrongEntries as error:
        raise InvalidProvider(f"providers: {error}") from error
    for name, provider in (added or {}).items():
        if name in cascaded or providers.setdefault(name, provider) is not provider:
            raise InvalidProvider(f"providers: {name} is declared twice: rename one of them")
    return Providers(providers, routes, cascaded)


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None or name == ROUTE_PREFIX.rstrip("/"):
        raise InvalidProvider(
            f"providers: {name!r} is not a valid name: use lower-case letters, digits and -, and not `fairlead`"
        )


def _check_provider(name: str, provider: Provider) -> None:
    _check_name(name)
    _check_endpoint(name, provider.base_url, provider.key_env, provider.key_file, provider.headers)
    if provider.region is not None and not APIS[provider.kind].signing_service:
        raise InvalidProvider(f"providers: {name}: region is allowed only for the kind bedrock: remove it")
    if provider.caller_key == "Require" and (provider.key_env is not None or provider.key_file is not None):
        raise InvalidProvider(
            f"providers: {name}: with callerKey Require, keyEnv and keyFile are never used: remove them"
        )


def _check_endpoint(
    name: str, base_url: str, key_env: str | None, key_file: str | None, headers: Mapping[str, str]
) -> None:
    """Check URL, key and headers of a provider or speech server. Raises InvalidProvider."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
        raise InvalidProvider(f"providers: {name}: baseUrl must be an http or https URL without credentials or query")
    if key_env is not None and key_file is not None:
        raise InvalidProvider(f"providers: {name}: set only one of keyEnv and keyFile")
    for header, value in headers.items():
        if _HEADER.fullmatch(header) is None or header.lower() in _GATEWAY_HEADERS:
            raise InvalidProvider(
                f"providers: {name}: the header {header!r} is not allowed: it is invalid, or the gateway sets it"
            )
        if not value.isascii() or not value.isprintable():
            raise InvalidProvider(f"providers: {name}: the value of the header {header} must be printable ASCII")


def model_of(choice: ModelChoice | str) -> str:
    """Name of a model in a route."""
    return choice if isinstance(choice, str) else choice.model
