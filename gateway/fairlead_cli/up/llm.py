"""Chooses the model of `fairlead up --llm`, to which the gateway sends requests at its model endpoints: a provider's
model, a model at the URL of an API like OpenAI's, or a scripted model of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from fairlead_app.configuration import NO_COMMAND_LINE_MODELS, CommandLineModels
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_formats.tokens.routes import ModelRoute
from fairlead_llm.scripted_assistant import ScriptedAssistant
from fairlead_models.providers import ROUTE_PREFIX, Provider

OPTION: Final = "--llm"
KEY: Final = "FAIRLEAD_LLM_KEY"
"""Environment variable with the API key for a URL."""
SCRIPTED: Final = "scripted"
AUTO: Final = "auto"
ROUTE: Final = "default"
"""Route to the model for clients that name no model: `fairlead/default`."""
_PROVIDERS: Final = {
    "openai": (Provider("https://api.openai.com/v1", key_env="OPENAI_API_KEY"), "gpt-5-mini"),
    "anthropic": (Provider("https://api.anthropic.com", "anthropic", key_env="ANTHROPIC_API_KEY"), "claude-sonnet-5"),
    "gemini": (
        Provider("https://generativelanguage.googleapis.com", "gemini", key_env="GEMINI_API_KEY"),
        "gemini-3-flash",
    ),
}
"""Providers by name, each with the default model."""
_ANY: Final = "*"
_NAME: Final = "url"


class ChosenModel(msgspec.Struct, frozen=True):
    """The provider and model from the command line."""

    added: CommandLineModels = NO_COMMAND_LINE_MODELS
    model: str = ""
    """Name of the model for clients; empty if clients must name one of the provider's models, or if there is no
    model.
    """


@contextlib.asynccontextmanager
async def chosen_model(
    word: str | None, environ: Mapping[str, str], *, strict: bool = False
) -> AsyncIterator[ChosenModel]:
    """The provider that the option names. The scripted model runs until the context exits; with `strict` it rejects the
    requests that OpenAI's API rejects. Raises Failure.
    """
    if strict and word != SCRIPTED:
        raise Failure(f"--strict is for the scripted model alone: use it with {OPTION} {SCRIPTED}", code=USAGE_ERROR)
    if word is None:
        yield ChosenModel()
        return
    name = _automatic(environ) if word == AUTO else word
    if name != SCRIPTED:
        yield _remote(name, environ)
        return
    async with _serve_scripted(strict=strict) as port:
        yield _model_choice(SCRIPTED, Provider(f"http://127.0.0.1:{port}/v1"), SCRIPTED)


def _automatic(environ: Mapping[str, str]) -> str:
    """The first provider whose key is in the environment, or else the scripted model."""
    return next((name for name, (each, _) in _PROVIDERS.items() if environ.get(each.key_env or "")), SCRIPTED)


def _remote(name: str, environ: Mapping[str, str]) -> ChosenModel:
    if name in _PROVIDERS:
        provider, model = _PROVIDERS[name]
        if not environ.get(provider.key_env or ""):
            raise Failure(f"{OPTION} {name}: {provider.key_env} is not set: set it to your API key", code=USAGE_ERROR)
        return _model_choice(name, provider, model)
    if not name.startswith(("http://", "https://")):
        names = ", ".join((*_PROVIDERS, SCRIPTED, AUTO))
        raise Failure(f"{OPTION}: {name!r} is neither one of {names} nor a URL", code=USAGE_ERROR)
    return _model_choice(_NAME, Provider(name, key_env=KEY if environ.get(KEY) else None), "")


def _model_choice(name: str, provider: Provider, model: str) -> ChosenModel:
    """The provider for any of its models, with a route to `model` if it is not empty."""
    any_model_provider = msgspec.structs.replace(provider, models=(*((model,) if model else ()), _ANY))
    if not model:
        return ChosenModel(CommandLineModels({name: any_model_provider}))
    return ChosenModel(
        CommandLineModels({name: any_model_provider}, {ROUTE: ModelRoute((model,))}), f"{ROUTE_PREFIX}{ROUTE}"
    )


@contextlib.asynccontextmanager
async def _serve_scripted(*, strict: bool) -> AsyncIterator[int]:
    """Run the scripted model on a free port of this machine, and yield the port."""
    from fairlead_gateway.endpoint.uvicorn_protocols import UvicornProtocols

    protocols = UvicornProtocols(ScriptedAssistant(strict=strict))
    server = await asyncio.get_running_loop().create_server(protocols.new, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in [*protocols.tasks]:
            task.cancel()
