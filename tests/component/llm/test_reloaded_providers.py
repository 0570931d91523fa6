"""The file of routes and providers is read again after a change, either completely or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_app.configuration import CommandLineModels
from fairlead_app.configured_models import ConfiguredModels
from fairlead_app.gateway import Gateway
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from fairlead_models.providers import ModelTarget, Provider
from gatewayworld import catalog, running, scrape
from llmworld import ADDS, PATH
from restworld import get, post
from toolservers import modern_server, serve_asgi
from waiting import eventually

ADD = ScriptedCall("demo__add", {"a": 1, "b": 2})


@dataclass
class World:
    gateway: Gateway
    models: ConfiguredModels
    file: Path

    def write(self, ports: Mapping[str, int], **more: Any) -> None:
        """Write the file in place, with a provider for each name, whose only model has the same name."""
        self.file.write_text(configuration_text(ports, **more))

    async def wait_for_reloads(self, times: int) -> None:
        await eventually(lambda: self.models.reloads >= times)

    async def says(self, model: str) -> str:
        answer = await post(self.gateway, PATH, {"model": model, "messages": [{"role": "user", "content": "Hi"}]})
        if answer.status != 200:
            return f"{answer.status} {answer.message.get('error', answer.message)}"
        return str(answer.message["choices"][0]["message"]["content"])


def configuration_text(ports: Mapping[str, int], **more: Any) -> str:
    providers = {name: {"baseUrl": f"http://127.0.0.1:{port}/v1", "models": [name]} for name, port in ports.items()}
    return json.dumps({"providers": providers, **more})


@contextlib.asynccontextmanager
async def world(folder: Path, text: str) -> AsyncIterator[World]:
    file = folder / "models.yaml"
    file.write_text(text)
    async with modern_server([ADDS], call=lambda _: {"content": [{"type": "text", "text": "3"}]}) as server:
        models = ConfiguredModels.of_file(file)
        async with running(folder, catalog("demo", server.url, [ADDS]), models=models) as gateway:
            yield World(gateway, models, file)


async def test_a_provider_that_is_added_or_taken_out_needs_no_restart(tmp_path: Path) -> None:
    async with (
        serve_asgi(ScriptedModel(ScriptedTurn("of the old"))) as old,
        serve_asgi(ScriptedModel(ScriptedTurn("of the new"))) as new,
        world(tmp_path, configuration_text({"old": old}, routes={"r": {"models": ["old"]}})) as running,
    ):
        assert await running.says("fairlead/r") == "of the old"
        running.write({"new": new}, routes={"r": {"models": ["new"]}}, models={"new": 5000})
        await running.wait_for_reloads(1)
        assert await running.says("fairlead/r") == "of the new"
        assert (await running.says("old")).startswith("404")
        listed = (await get(running.gateway, "/v1/models")).message["data"]
        plan = await post(running.gateway, "/v1/plan", {"route": "r", "messages": []})
    assert [(model["id"], model["context_window"]) for model in listed] == [("new", 5000), ("fairlead/r", 5000)]
    assert plan.message["model"] == "new"


async def test_a_file_without_providers_may_get_some(tmp_path: Path) -> None:
    async with serve_asgi(ScriptedModel(ScriptedTurn("here"))) as port, world(tmp_path, "routes: {}") as running:
        assert (await post(running.gateway, PATH, {})).headers["content-type"] == "application/problem+json"
        running.write({"m": port})
        await running.wait_for_reloads(1)
        assert await running.says("m") == "here"


async def test_a_broken_file_changes_nothing_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turns = [ScriptedTurn("as before"), ScriptedTurn("mended")]
    async with serve_asgi(ScriptedModel(*turns)) as port, world(tmp_path, configuration_text({"m": port})) as running:
        running.write({"m": port}, routes={"r": {"models": ["nobody's"]}})
        await eventually(lambda: running.models.reload_failed)
        assert await running.says("m") == "as before"
        assert "fairlead_config_reload_failed 1.0" in await scrape(running.gateway)
        assert (await get(running.gateway, "/readyz")).status == 200
        assert 'no provider serves a model "nobody\'s"' in caplog.text
        assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
        running.write({"m": port})
        await running.wait_for_reloads(1)
        assert "fairlead_config_reload_failed 0.0" in await scrape(running.gateway)
        assert await running.says("m") == "mended"


async def test_a_mounted_config_map_is_swapped_by_its_link(tmp_path: Path) -> None:
    for name, text in (("one", "routes: {}"), ("two", "routes: {r: {models: [m]}}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "routes.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "routes.yaml").symlink_to("..data/routes.yaml")
    models = ConfiguredModels.of_file(tmp_path / "routes.yaml")
    models.start()
    try:
        (tmp_path / "..new").symlink_to("two")
        (tmp_path / "..new").rename(tmp_path / "..data")
        await eventually(lambda: "r" in models.current.routes)
    finally:
        await models.stop()
    assert models.reloads == 1


async def test_models_added_on_the_command_line_are_there_behind_each_change(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("routes: {}")
    added = CommandLineModels({"url": Provider("http://127.0.0.1:9/v1", models=("*",))})
    models = ConfiguredModels.of_file(file, added)
    models.start()
    try:
        file.write_text("routes: {r: {models: [any]}}")
        await eventually(lambda: models.reloads == 1)
    finally:
        await models.stop()
    assert models.current.providers.targets("fairlead/r")[1] == [ModelTarget("url", "any")]


class _Gated:
    """Model that answers when the test lets it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requested = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.requested.set()
            await self.open.wait()
        await self._app(scope, receive, send)


async def test_a_request_in_progress_continues_with_its_old_provider(tmp_path: Path) -> None:
    model = ScriptedModel(ScriptedTurn("", [ADD]), ScriptedTurn("still the old"))
    gated = _Gated(model)
    async with serve_asgi(gated) as old, world(tmp_path, configuration_text({"m": old})) as running:
        pending = asyncio.create_task(running.says("m"))
        await gated.requested.wait()
        running.write({"other": 9})
        await running.wait_for_reloads(1)
        gated.open.set()
        assert await pending == "still the old"
    assert len(model.requests) == 2
