"""What the resources of the REST plane work with. Made by `app`, one per gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from fairlead_gateway.budget.counting import best_counter
from fairlead_gateway.budget.models import LiveModels, Windows
from fairlead_gateway.budget.routes import Route
from fairlead_gateway.budget.sizes import Sizes
from fairlead_gateway.calls.direct import Caller
from fairlead_gateway.endpoint.hosts import AllowList
from fairlead_gateway.formats import registry
from fairlead_gateway.formats.cache import Conversions
from fairlead_gateway.formats.format import Format
from fairlead_gateway.rest.problems import UNKNOWN_FORMAT, Problem
from fairlead_gateway.rest.shelf import Shelf, Shelves
from fairlead_gateway.rest.worker import Worker
from fairlead_gateway.selection.view import Selection

MAX_BODY: Final = 4 << 20


class Plane:
    """The gateway as REST sees it: what is served, how a call is made, where heavy work is done."""

    def __init__(
        self,
        selection: Callable[[], Selection],
        caller: Caller,
        allow: AllowList,
        *,
        max_body: int = MAX_BODY,
        routes: Mapping[str, Route] = MappingProxyType({}),
        windows: Windows | None = None,
        live_models: Callable[[], LiveModels] | None = None,
    ) -> None:
        self._selection = selection
        self._shelves = Shelves()
        self._sizes: Sizes | None = None
        self.caller = caller
        self.allow = allow
        self.max_body = max_body
        """Bytes of a request's body."""
        self.worker = Worker()
        self.conversions = Conversions()
        self._windows = windows or Windows()
        self._live_models = live_models
        self._live: LiveModels | None = None
        self.routes = routes
        """Of models, by name."""

    @property
    def selection(self) -> Selection:
        """What is served now."""
        return self._selection()

    @property
    def live_models(self) -> LiveModels | None:
        """What a model server told last; None without one in the configuration."""
        return None if self._live_models is None else self._live_models()

    @property
    def windows(self) -> Windows:
        """What models hold. In the worker only."""
        live = self.live_models
        if live is not self._live and live is not None:
            self._windows, self._live = self._windows.with_live(live.models), live
        return self._windows

    def shelf(self, tier: str | None) -> Shelf:
        """The visible tools of a tier. In the worker only. Raises Problem."""
        return self._shelves.of(self.selection, tier)

    def sizes(self) -> Sizes:
        """What tools cost. In the worker only: the first use loads the vocabulary."""
        if self._sizes is None:
            self._sizes = Sizes(best_counter())
        return self._sizes


def format_called(name: str) -> Format:
    """The format of that name or alias, in any case. Raises Problem, which names the known ones."""
    try:
        return registry.find(name)
    except registry.UnknownFormat as error:
        raise Problem(UNKNOWN_FORMAT, str(error), known=error.known) from error
