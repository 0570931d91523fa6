"""Current routes, windows and providers of models, reloaded when their file changes.

A changed file is applied as a whole. If it is invalid, the previous configuration stays in use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from fairlead_api.bad_setting import BadSetting
from fairlead_app.configuration import NO_COMMAND_LINE_MODELS, CommandLineModels, Models, load_models
from fairlead_formats.tokens.models import ContextWindows, LiveModels, LiveSource
from fairlead_formats.tokens.prices import ModelPrice
from fairlead_formats.tokens.routes import ModelRoute
from fairlead_gateway.file_changes import FileChanges
from fairlead_models.providers import Providers

if TYPE_CHECKING:
    from fairlead_offers.models.live_models import Refresher

NO_MODELS: Final = Models()
log = logging.getLogger("fairlead_gateway")


class ConfiguredModels:
    """Configured models of one gateway, with their file watcher. To be started and stopped once."""

    def __init__(
        self, models: Models, path: Path | None = None, command_line: CommandLineModels = NO_COMMAND_LINE_MODELS
    ) -> None:
        """`models` is the configuration before the first change of the file at `path`. Without a path, the
        configuration never changes.
        """
        self.current = models
        self.changes = FileChanges(path) if path is not None else None
        """Changes of the file; None without a file."""
        self._path = path
        self._command_line = command_line
        self._task: asyncio.Task[None] | None = None
        self._refresher: Refresher | None = None
        self.reload_failed = False
        """Whether the last change made the file invalid."""
        self.reloads = 0
        """Number of applied changes of the file."""

    @classmethod
    def of_file(cls, path: Path | None, command_line: CommandLineModels = NO_COMMAND_LINE_MODELS) -> Self:
        """Load the models of a file and `command_line`. Raises BadSetting."""
        models = cls(NO_MODELS, path, command_line)
        if models.changes is not None:
            models.changes.check()  # before the file is read, so that no later change is missed
        models.current = load_models(path, command_line)
        return models

    def providers(self) -> Providers:
        """Providers of the current configuration."""
        return self.current.providers

    def routes(self) -> Mapping[str, ModelRoute]:
        """Routes of the current configuration, by name."""
        return self.current.routes

    def windows(self) -> ContextWindows:
        """Configured context windows of models."""
        return self.current.windows

    def prices(self) -> Mapping[str, ModelPrice]:
        """Configured prices, by model."""
        return self.current.prices

    def live(self) -> LiveModels | None:
        """Context windows last reported by the configured model server; None without a model server."""
        return None if self._refresher is None else self._refresher.models

    def start(self) -> None:
        """Start watching the file and polling the model server."""
        self._set_model_server(self.current.live)
        if self.changes is not None:
            self._task = asyncio.create_task(self._watch(self.changes), name="routes and providers")

    async def stop(self) -> None:
        """Stop watching the file and polling the model server."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._refresher is not None:
            await self._refresher.stop()

    def _set_model_server(self, source: LiveSource | None) -> None:
        """Poll `source` from now on, instead of the previous model server. None stops the polling."""
        self._refresher = None
        if source is not None:
            # imported here, because the import of the HTTP client takes a third of a second
            from fairlead_offers.models.live_models import Refresher

            self._refresher = Refresher(source)
            self._refresher.start()

    async def _watch(self, changes: FileChanges) -> None:
        async for _ in changes:
            try:
                models = await asyncio.to_thread(load_models, self._path, self._command_line)
            except BadSetting as error:
                self.reload_failed = True
                log.error("The changed routes and providers are not applied; the previous file stays in use: %s", error)
            else:
                await self._apply(models)

    async def _apply(self, models: Models) -> None:
        if models.live != self.current.live:
            if self._refresher is not None:
                await self._refresher.stop()
            self._set_model_server(models.live)
        self.current = models
        self.reload_failed = False
        self.reloads += 1
        routes, providers = len(models.routes), len(models.providers.by_name)
        log.info("%s was reloaded: %d routes, %d providers", self._path, routes, providers)
