"""Providers of models, and which of them a request's model name means. Pure module.

Read from the installation's configuration by the composition root. Example:

    providers:
      openai: {baseUrl: "https://api.openai.com/v1", keyEnv: OPENAI_API_KEY, models: ["gpt-*", "o4-*"]}
      claude: {kind: anthropic, baseUrl: "https://api.anthropic.com", keyEnv: ANTHROPIC_API_KEY, models: ["claude-*"]}
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
from fairlead_formats.tokens.routes import ModelChoice, ModelRoute
from fairlead_formats.wire.provider_api import ProviderKind
from fairlead_models.cascaded_engines import CASCADED, CascadedProvider, Seconds, SlowTurns

MAX_NAME: Final = 256
"""Characters of a model's name in a request."""
ROUTE_PREFIX: Final = "fairlead/"
"""Prefix of a route's name in the `model` of a request."""
OPENAI_HOST: Final = "api.openai.com"
CallerKey = Literal["Refuse", "Allow", "Require"]
_SPEAKING: Final = tuple(api.kind for api in APIS.values() if api.speech)
"""Kinds whose speech sessions are bridged."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_DOTS: Final = frozenset({".", ".."})
_PATTERN: Final = re.compile(r"[*?[]")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS: Final = frozenset(
    {
        *(api.key_header for api in APIS.values()),
        "content-length",
        "content-type",
        "host",
        "accept-encoding",
        "connection",
        "x-fairlead-provider-key",
    }
)
"""Headers that a provider's setting may not name: they are written here."""
_LISTS: Final = frozenset({"anthropic-beta"})
"""Headers whose values add up: the client's and those of the configuration."""


class InvalidProvider(ValueError):
    """Providers that cannot be read; the message names the place."""


class UnknownModel(LookupError):
    """No provider serves a model of that name; the message says what there is."""


class ProviderKeyRefused(Exception):
    """A request brings a provider's key where the provider takes none, or none where it needs one."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """401 for a key that is missing, 403 for one that is not taken."""


class Provider(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One API of models."""

    base_url: str
    """Base of the API. `openai`: with the version, as in `https://api.openai.com/v1`; below it is `/chat/completions`.
    `anthropic` and `gemini`: without it, as in `https://api.anthropic.com` and
    `https://generativelanguage.googleapis.com`; below it are `/v1/messages` and `/v1beta/models/…`. A version at its
    end is left out.
    """
    kind: ProviderKind = "openai"
    """Wire format: `openai`, also that of vLLM, Ollama, LiteLLM and others that are compatible."""
    key_env: str | None = None
    """Environment variable with the key."""
    key_file: str | None = None
    """File with the key, read for each request, so that a mounted Secret may change."""
    caller_key: CallerKey = "Refuse"
    """Whether a caller may, or must, bring a key of its own, which then goes out in place of this one."""
    headers: Mapping[str, str] = {}
    """More headers of every request."""
    models: tuple[str, ...] = ()
    """Models by name, `*` for any part of it; any of them go by `PROVIDER/MODEL` too."""
    connect_seconds: Seconds = 5.0
    """Longest time for a connection."""
    idle_seconds: Seconds = 120.0
    """Longest time without a byte of an answer."""
    stream_usage: bool = True
    """Whether the API takes `stream_options.include_usage`; of the kind `openai`."""
    slow_turns: SlowTurns | None = None
    """Turns of speech sessions that a cascaded engine answers; of the kinds `openai` and `gemini`."""
    responses: bool | None = None
    """Whether the API has `/responses`; of the kind `openai`. By default that of OpenAI itself has."""

    @property
    def speaks_responses(self) -> bool:
        """Whether requests in the form of OpenAI Responses go to it as they are."""
        own = urlsplit(self.base_url).hostname == OPENAI_HOST
        return self.kind == "openai" and (own if self.responses is None else self.responses)

    def url(self, path: str) -> str:
        """Address of a path of the API, such as `/chat/completions`, `/v1/messages`,
        `/v1beta/models/MODEL:generateContent`.
        """
        base = self.base_url.rstrip("/")
        for version in APIS[self.kind].base_versions:
            base = base.removesuffix(version)
        return base + path

    def request_headers(self, key: str, more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Headers of a request with the key, or without one where it is empty; `more` are the client's, below those of
        the configuration, lists apart. Names are lower-case.
        """
        api = APIS[self.kind]
        headers = {**api.headers, **more}
        for name, value in ((name.lower(), value) for name, value in self.headers.items()):
            headers[name] = f"{headers[name]},{value}" if name in _LISTS and name in headers else value
        if key:
            headers[api.key_header] = api.key_prefix + key
        return headers


class ModelTarget(msgspec.Struct, frozen=True):
    """One model at one provider."""

    provider: str
    """Name in the configuration."""
    model: str
    """Name of the model at the provider."""


class Providers:
    """All providers, in the order of the configuration, with the routes over their models."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        routes: Mapping[str, ModelRoute],
        cascaded: Mapping[str, CascadedProvider] = MappingProxyType({}),
    ) -> None:
        """`cascaded` are engines of speech over the models of the others. Raises InvalidProvider, also for a route with
        a model that no provider serves, where there are providers.
        """
        for name, provider in providers.items():
            _check(name, provider)
        self.by_name = dict(providers)
        self.cascaded = dict(cascaded)
        self.routes = routes
        for name, engine in self.cascaded.items():
            self._check_cascaded(name, engine)
        for name, provider in providers.items():
            slow = provider.slow_turns
            if slow is not None and (provider.kind not in _SPEAKING or slow.engine not in self.cascaded):
                raise InvalidProvider(
                    f"providers: {name}: slowTurns is of the kinds {', '.join(_SPEAKING)}, "
                    "and its engine of the kind cascaded"
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
        self, wanted: str, *, keyed: bool = False, spoken: bool = False
    ) -> tuple[ModelRoute, list[ModelTarget]]:
        """The route that a request's `model` means, and its models with their providers, in the order in which they
        are tried. A plain name is a route of that one model. `keyed`: the request brings a provider's key; providers
        that do not take it, or need one, are left out. `spoken`: cascaded engines are among them. Raises UnknownModel,
        and ProviderKeyRefused where none is left.
        """
        if len(wanted) > MAX_NAME:  # caches of tools and breakers have it in their keys
            raise UnknownModel(f"no provider serves a model {wanted[:128]!r}: its name is over {MAX_NAME} characters")
        if not wanted.startswith(ROUTE_PREFIX):
            matching = self._speaking(wanted, [self.target(wanted)], spoken)
            return ModelRoute((wanted,), reserved_output_tokens=0), self._taking(matching, keyed)
        route = self.routes.get(wanted.removeprefix(ROUTE_PREFIX))
        if route is None:
            route_names = ", ".join(sorted(f"{ROUTE_PREFIX}{name}" for name in self.routes)) or "none"
            raise UnknownModel(f"there is no route {wanted[:128]!r}; routes: {route_names}")
        matching = self._speaking(wanted, [self.target(model_of(choice)) for choice in route.models], spoken)
        return route, self._taking(matching, keyed)

    def check_key(self, name: str, *, keyed: bool) -> None:
        """Check that a provider takes a request with, or without, a key of its own. Raises ProviderKeyRefused."""
        self._taking([ModelTarget(name, "")], keyed)

    def _speaking(self, wanted: str, targets: list[ModelTarget], spoken: bool) -> list[ModelTarget]:
        """Targets that take requests for text, or also for speech. Raises UnknownModel if none does."""
        speaking = [target for target in targets if spoken or target.provider not in self.cascaded]
        if not speaking:
            raise UnknownModel(f"{wanted[:128]!r} is a cascaded engine: open a speech session with it at /v1/realtime")
        return speaking

    def _check_cascaded(self, name: str, engine: CascadedProvider) -> None:
        """Raises InvalidProvider."""
        _check_name(name)
        if name in self.by_name:
            raise InvalidProvider(f"providers: {name} is there twice")
        for part, backend in (("stt", engine.stt), ("tts", engine.tts)):
            _check_place(f"{name}: {part}", backend.base_url, backend.key_env, backend.key_file, backend.headers)
        try:
            self.targets(engine.llm)
        except (UnknownModel, ProviderKeyRefused) as error:
            raise InvalidProvider(f"providers: {name}: llm: {error}") from error

    def _taking(self, targets: list[ModelTarget], keyed: bool) -> list[ModelTarget]:
        """Targets that take a request with, or without, a key of the caller. Raises ProviderKeyRefused if none does."""
        unfit = "Refuse" if keyed else "Require"
        taking = [target for target in targets if self._caller_key(target.provider) != unfit]
        if taking:
            return taking
        name = targets[0].provider
        if keyed:
            why = f"the provider {name} takes no keys of callers (its setting callerKey is Refuse)"
            raise ProviderKeyRefused(403, f"{why}: leave out x-fairlead-provider-key")
        why = f"the provider {name} needs a key of the caller's (its setting callerKey is Require)"
        raise ProviderKeyRefused(401, f"{why}: send it in x-fairlead-provider-key")

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
        """Models that may be asked for by name, with the provider of each: plain names of `models`, no patterns."""
        names: dict[str, str] = {}
        for _, models in self._models():
            for model in models:
                if not _PATTERN.search(model):
                    names.setdefault(model, self.target(model).provider)
        return names

    def target(self, wanted: str) -> ModelTarget:
        """The provider of one model: by `PROVIDER/MODEL`, else the first whose `models` has the name. Raises
        UnknownModel.
        """
        if not _DOTS.isdisjoint(wanted.split("/")):  # Gemini has the name in the path, where they lead elsewhere
            raise UnknownModel(f"{wanted[:128]!r} is not a valid name of a model: no part of it may be `.` or `..`")
        first, slash, rest = wanted.partition("/")
        if slash and rest and (first in self.by_name or first in self.cascaded):
            return ModelTarget(first, rest)
        for name, models in self._models():
            if any(fnmatchcase(wanted, pattern) for pattern in models):
                return ModelTarget(name, wanted)
        provider_names = ", ".join([*self.by_name, *self.cascaded]) or "none"
        raise UnknownModel(
            f"no provider serves a model {wanted[:128]!r}; name it in `models` of one of them, or ask for "
            f"PROVIDER/MODEL (providers: {provider_names})"
        )


def read_providers(
    document: object, routes: Mapping[str, ModelRoute], added: Mapping[str, Provider] | None = None
) -> Providers:
    """From decoded configuration, with those `added` behind it. Raises InvalidProvider."""
    try:
        given = msgspec.convert(document, dict[str, dict[str, Any]])
        engines = {name: each for name, each in given.items() if each.get("kind") == CASCADED}
        cascaded = msgspec.convert(engines, dict[str, CascadedProvider])
        others = {name: each for name, each in given.items() if name not in engines}
        providers = msgspec.convert(others, dict[str, Provider])
    except msgspec.ValidationError as error:
        raise InvalidProvider(f"providers: {error}") from error
    for name, provider in (added or {}).items():
        if name in cascaded or providers.setdefault(name, provider) is not provider:
            raise InvalidProvider(f"providers: {name} is there already: give one of the two another name")
    return Providers(providers, routes, cascaded)


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None or name == ROUTE_PREFIX.rstrip("/"):
        raise InvalidProvider(
            f"providers: {name!r} is not a valid name: small letters, digits and -, and not `fairlead`"
        )


def _check(name: str, provider: Provider) -> None:
    _check_name(name)
    _check_place(name, provider.base_url, provider.key_env, provider.key_file, provider.headers)
    if provider.caller_key == "Require" and (provider.key_env is not None or provider.key_file is not None):
        raise InvalidProvider(
            f"providers: {name}: with callerKey: Require its own key would never be used: leave it out"
        )


def _check_place(
    name: str, base_url: str, key_env: str | None, key_file: str | None, headers: Mapping[str, str]
) -> None:
    """Raises InvalidProvider."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
        raise InvalidProvider(f"providers: {name}: baseUrl must be an http or https URL without credentials or query")
    if key_env is not None and key_file is not None:
        raise InvalidProvider(f"providers: {name}: give either keyEnv or keyFile")
    for header, value in headers.items():
        if _HEADER.fullmatch(header) is None or header.lower() in _OURS:
            raise InvalidProvider(f"providers: {name}: the header {header!r} cannot be set here")
        if not value.isascii() or not value.isprintable():
            raise InvalidProvider(f"providers: {name}: the header {header} must be printable ASCII")


def model_of(choice: ModelChoice | str) -> str:
    """Name of the model that a route chooses."""
    return choice if isinstance(choice, str) else choice.model
