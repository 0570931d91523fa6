"""Reads and checks the files and paths that settings name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fairlead_api.bad_setting import BadSetting
from fairlead_api.extras import install_command
from fairlead_api.yaml_files import read_yaml
from fairlead_app.settings import InstallationSettings
from fairlead_formats.registry import UnknownFormat
from fairlead_formats.tokens.models import ContextWindow, ContextWindows, LiveSource
from fairlead_formats.tokens.prices import ModelPrice
from fairlead_formats.tokens.routes import InvalidRoute, ModelRoute, read_routes
from fairlead_gateway.audit.settings import AuditSettings
from fairlead_gateway.endpoint.settings import TlsSettings
from fairlead_gateway.endpoint.tls import BadCertificate, Certificates
from fairlead_gateway.identity.settings import MadeKeySettings
from fairlead_gateway.result_stores.settings import CompressorSettings
from fairlead_mcp.egress_settings import EgressSettings
from fairlead_mcp.misread_values import misreading_of
from fairlead_models.providers import InvalidProvider, Provider, Providers, read_providers
from fairlead_rest.settings import RestSettings, ToolSearchSettings
from fairlead_search.embedding import DISK_MODULES, ENDPOINT_MODULES, EmbeddingConfig, missing_modules
from fairlead_search.result_compression import CompressorConfig

NO_PROVIDERS: Final = Providers({}, {})
Tokens = Annotated[int, Meta(ge=1)]


class ModelSetting(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Context window and price of a model, which override the packaged data."""

    context: Tokens | None = None
    max_input: Tokens | None = None
    price: ModelPrice | None = None
    """US dollars per million tokens."""


class Models(msgspec.Struct, frozen=True):
    """Configuration of models: routes, context windows, providers and prices."""

    routes: Mapping[str, ModelRoute] = MappingProxyType({})
    windows: ContextWindows = ContextWindows()
    live: LiveSource | None = None
    """Model server that is polled for the context windows of its models; None: no polling."""
    providers: Providers = NO_PROVIDERS
    """Providers to which the gateway's model endpoints send requests."""
    prices: Mapping[str, ModelPrice] = MappingProxyType({})
    """Prices by the name of the model, or by `PROVIDER/MODEL`."""


class _File(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    routes: dict[str, Any] = {}
    models: dict[str, Tokens | ModelSetting] = {}
    """Context window in tokens, or window and price, by model."""
    live_models: LiveSource | None = None
    providers: dict[str, Any] = {}


class CommandLineModels(msgspec.Struct, frozen=True):
    """Providers and routes from the command line, which a file may override."""

    providers: Mapping[str, Provider] = MappingProxyType({})
    routes: Mapping[str, ModelRoute] = MappingProxyType({})
    """Routes that apply unless the file has one of the same name."""


NO_COMMAND_LINE_MODELS: Final = CommandLineModels()


def load_models(path: Path | None, command_line: CommandLineModels = NO_COMMAND_LINE_MODELS) -> Models:
    """Load models from a YAML file with the members `routes`, `models`, `liveModels` and `providers`, and from
    `command_line`.

    Example:

        routes: {default: {models: [gpt-5-mini, our-qwen], maxTools: 40}}
        models:
          our-qwen: 65536
          gpt-5-mini: {context: 400000, maxInput: 272000, price: {input: 0.25, output: 2, cachedInput: 0.025}}
        liveModels: {url: "http://vllm.models:8000/v1/models", refreshSeconds: 300, tokenFile: /etc/vllm/token}
        providers: {vllm: {baseUrl: "http://vllm.models:8000/v1", models: [our-qwen]}}

    Raises BadSetting with the file and the location of the error.
    """
    if path is None:
        return _of_document({}, command_line, "the providers of the command line")
    return _of_document(read_yaml(path, "the routes of FAIRLEAD_ROUTES"), command_line, str(path))


def _of_document(document: object, command_line: CommandLineModels, source: str) -> Models:
    """Models from a parsed document. Raises BadSetting with a message that begins with `source`."""
    try:
        file = msgspec.convert(document, _File)
        routes = {**command_line.routes, **read_routes(file.routes)}
        providers = read_providers(file.providers, routes, command_line.providers)
    except msgspec.ValidationError as error:
        misreading = misreading_of(error)
        is_nested = "." in misreading.path or "[" in misreading.path
        members = "" if is_nested else "; it may have only the members routes, models, liveModels and providers"
        raise BadSetting(f"{source}: {misreading.about('the file')}{members}") from error
    except (InvalidRoute, InvalidProvider, UnknownFormat) as error:
        raise BadSetting(f"{source}: {error}") from error
    if file.live_models is not None and urlsplit(file.live_models.url).scheme not in ("http", "https"):
        raise BadSetting(f"{source}: liveModels.url must be the http or https URL of a list of models")
    windows = {
        name: window for name, setting in file.models.items() if (window := _window(source, name, setting)) is not None
    }
    prices = {
        name: setting.price
        for name, setting in file.models.items()
        if isinstance(setting, ModelSetting) and setting.price is not None
    }
    return Models(routes, ContextWindows(windows), file.live_models, providers, prices)


class ModelApiReach(msgspec.Struct, frozen=True):
    """Egress rules for the model APIs of tool search and result compression: the rules of the release's namespace."""

    egress: EgressSettings
    namespace: str


def embedding_config(settings: ToolSearchSettings, reach: ModelApiReach) -> EmbeddingConfig | None:
    """Configuration of the embedder for tool search; None for search without vectors. Raises BadSetting."""
    embedder = settings.embedder
    if embedder == "auto":
        embedder = "endpoint" if settings.url else "none" if missing_modules() else "built-in"
    if embedder == "none":
        return None
    modules = missing_modules() if embedder == "built-in" else missing_modules(ENDPOINT_MODULES)
    if modules:
        wheel = ", then install the wheel fairlead-search-model of the same release" if embedder == "built-in" else ""
        raise BadSetting(
            f"FAIRLEAD_EMBEDDER is {embedder}, but these modules are missing: {', '.join(modules)}. "
            f"Run {install_command('search')}{wheel}"
        )
    return EmbeddingConfig() if embedder == "built-in" else _endpoint(settings, reach)


def certificates(settings: TlsSettings) -> Certificates | None:
    """TLS certificates of the listener; None for plain HTTP. Raises BadSetting."""
    if settings.cert is None:
        if settings.key is not None or settings.client_ca is not None:
            raise BadSetting(
                "FAIRLEAD_TLS_KEY and FAIRLEAD_TLS_CLIENT_CA need a certificate: set FAIRLEAD_TLS_CERT too"
            )
        return None
    try:
        return Certificates(settings.cert, settings.key, settings.client_ca)
    except BadCertificate as error:
        raise BadSetting(f"FAIRLEAD_TLS_CERT cannot be used: {error}") from error


def vector_folder(settings: ToolSearchSettings, rest: RestSettings) -> Path | None:
    """Directory that stores the vectors of tools; None to keep them in memory. Raises BadSetting."""
    folder = settings.directory
    if folder is None:
        return None
    modules = missing_modules(DISK_MODULES)
    if modules:
        raise BadSetting(
            f"FAIRLEAD_SEARCH_DIRECTORY is {folder}, but these modules are missing: {', '.join(modules)}. "
            f"Run {install_command('lancedb')}"
        )
    if not rest.processes:
        raise BadSetting("FAIRLEAD_SEARCH_DIRECTORY requires a separate process: set FAIRLEAD_REST_PROCESSES above 0")
    return folder


def _endpoint(settings: ToolSearchSettings, reach: ModelApiReach) -> EmbeddingConfig:
    _check_model_api("FAIRLEAD_EMBEDDER", settings.url, settings.model)
    return EmbeddingConfig(
        settings.url,
        settings.model,
        settings.key,
        settings.dimensions,
        settings.instruction,
        reach.egress.allowed_urls,
        reach.egress.denied_networks,
        reach.egress.rules.confined,
        reach.namespace,
    )


def compressor_config(settings: CompressorSettings, reach: ModelApiReach) -> CompressorConfig | None:
    """Configuration of the model that compresses results; None if no model is configured. Raises BadSetting."""
    if not settings.url:
        return None
    _check_model_api("FAIRLEAD_COMPRESSOR", settings.url, settings.model)
    return CompressorConfig(
        settings.url,
        settings.model,
        settings.key,
        settings.seconds,
        reach.egress.allowed_urls,
        reach.egress.denied_networks,
        reach.egress.rules.confined,
        reach.namespace,
    )


def _check_model_api(name: str, url: str, model: str) -> None:
    """Raises BadSetting if the URL or the model is missing."""
    if not url:
        raise BadSetting(
            f"{name}_URL is missing: set it to the base URL of an OpenAI-compatible API, such as http://vllm:8000/v1"
        )
    if not model:
        raise BadSetting(f"{name}_URL needs {name}_MODEL: set it to the name of a model at {url}")


def _window(source: str, name: str, setting: int | ModelSetting) -> ContextWindow | None:
    """Context window of a model; None if the packaged window applies. Raises BadSetting."""
    if isinstance(setting, int):
        return ContextWindow(setting)
    if setting.context is not None:
        return ContextWindow(setting.context, setting.max_input)
    if setting.max_input is not None or setting.price is None:
        raise BadSetting(f"{source}: models: {name}: set context (in tokens), or only price")
    return None


def check_paths(
    installation: InstallationSettings, search: ToolSearchSettings, audit: AuditSettings, keys: MadeKeySettings
) -> None:
    """Raise BadSetting for paths that do not exist or cannot be written.

    `cache_dir` is not checked, because the gateway also works without its cache.
    """
    if installation.credentials is not None and not installation.credentials.is_dir():
        raise BadSetting(f"FAIRLEAD_CREDENTIALS is {installation.credentials}, which is not a directory")
    if search.directory is not None:
        _check_writable("FAIRLEAD_SEARCH_DIRECTORY", search.directory, "folder")
    if audit.file is not None and audit.calls != "off":
        _check_writable("FAIRLEAD_AUDIT_FILE", audit.file, "file")
    if keys.file is not None and keys.makers:
        _check_writable("FAIRLEAD_MADE_KEYS", keys.file, "file")


def _check_writable(name: str, path: Path, kind: str) -> None:
    """Raise BadSetting if a path cannot be written. A file needs an existing directory; a missing directory will be
    created with its parents.
    """
    existing = path if path.exists() else path.parent
    while kind == "folder" and not existing.exists():
        existing = existing.parent
    is_kind = path.is_dir() == (kind == "folder") if path.exists() else existing.is_dir()
    if not is_kind or not os.access(existing, os.W_OK):
        raise BadSetting(f"{name} is {path}, which is not a {kind} that the gateway can write")
