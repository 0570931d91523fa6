"""Facts about models: routes, context windows and prices, from the configuration and the model server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead_formats.tokens.models import ContextWindows, LiveModels
from fairlead_formats.tokens.prices import ModelPrice
from fairlead_formats.tokens.routes import ModelRoute


class ModelFacts:
    """Current facts about models. Each gateway has one instance. The constructor takes functions that return the
    configured routes, windows and prices, and the last list of the model server.
    """

    def __init__(
        self,
        routes: Callable[[], Mapping[str, ModelRoute]],
        windows: Callable[[], ContextWindows],
        prices: Callable[[], Mapping[str, ModelPrice]],
        live: Callable[[], LiveModels | None],
    ) -> None:
        self._routes = routes
        self._prices = prices
        self._get_configured = windows
        self._get_live = live
        self._live: LiveModels | None = None
        self._windows = (windows(), windows())
        """Cache of `windows`: the configured windows, and these windows completed by the windows of the model server.
        """

    @property
    def routes(self) -> Mapping[str, ModelRoute]:
        """Configured routes, by name."""
        return self._routes()

    @property
    def prices(self) -> Mapping[str, ModelPrice]:
        """Configured prices, by model."""
        return self._prices()

    @property
    def live(self) -> LiveModels | None:
        """Last answer of the model server; None if no model server is configured."""
        return self._get_live()

    @property
    def windows(self) -> ContextWindows:
        """Context windows of models. The first lookup of a window reads a small file."""
        configured_windows, live = self._get_configured(), self.live
        if configured_windows is not self._windows[0] or live is not self._live:
            self._windows = (
                configured_windows,
                configured_windows if live is None else configured_windows.with_live(live.models),
            )
            self._live = live
        return self._windows[1]
