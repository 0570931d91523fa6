"""Routes, windows and providers of models as they are now: those of a file are read again when it changes.

What a changed file says is taken as a whole or not at all: one that cannot be used leaves what there is in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from fairlead_api.bad_setting import BadSetting
from fairlead_app.configuration import NOTHING_ADDED, AddedModels, Models, load_models
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
    """Models of one gateway. `start` and `stop` it once."""

    def __init__(self, models: Models, path: Path | None = None, added: AddedModels = NOTHING_ADDED) -> None:
        """`models` are what the file at `path`, and what is `added` to it, said before the first change. Without a path
        nothing changes.
        """
        self.current = models
        self.changes = FileChanges(path) if path is not None else None
        """Changes of the file; None without one."""
        self._path = path
        self._added = added
        self._task: asyncio.Task[None] | None = None
        self._refresher: Refresher | None = None
        self.reload_failed = False
        """Whether the file was changed to something that cannot be used."""
        self.reloads = 0
        """Times that a changed file was taken."""

    @classmethod
    def of_file(cls, path: Path | None, added: AddedModels = NOTHING_ADDED) -> Self:
        """The models of a file, with what is added to it. Raises BadSetting."""
        configured = cls(NO_MODELS, path, added)
        if configured.changes is not None:
            configured.changes.look()  # before the file is read: a change after that is found
        configured.current = load_models(path, added)
        return configured

    def providers(self) -> Providers:
        """Providers of the last configuration that could be used."""
        return self.current.providers

    def routes(self) -> Mapping[str, ModelRoute]:
        """Routes over their models, by name."""
        return self.current.routes

    def windows(self) -> ContextWindows:
        """Context windows of models, as configured."""
        return self.current.windows

    def prices(self) -> Mapping[str, ModelPrice]:
        """Prices that the installation states, by model."""
        return self.current.prices

    def live(self) -> LiveModels | None:
        """Context windows that the configured model server reported last; None without one."""
        return None if self._refresher is None else self._refresher.models

    def start(self) -> None:
        """Begin to watch the file, and to ask the model server."""
        self._set_model_server(self.current.live)
        if self.changes is not None:
            self._task = asyncio.create_task(self._watch(self.changes), name="routes and providers")

    async def stop(self) -> None:
        """Stop watching the file and asking the model server."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._refresher is not None:
            await self._refresher.stop()

    def _set_model_server(self, source: LiveSource | None) -> None:
        """Have this model server asked from now on."""
        self._refresher = None
        if source is not None:
            # only here: the HTTP client takes a third of a second to import
            from fairlead_offers.models.live_models import Refresher

            self._refresher = Refresher(source)
            self._refresher.start()

    async def _watch(self, changes: FileChanges) -> None:
        async for _ in changes:
            try:
                models = await asyncio.to_thread(load_models, self._path, self._added)
            except BadSetting as error:
                self.reload_failed = True
                log.error("Routes and providers stay as they were: %s", error)
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
        log.info("%s was read again: %d routes, %d providers", self._path, routes, providers)
