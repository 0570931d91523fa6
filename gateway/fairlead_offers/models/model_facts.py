"""Facts of models: routes, context windows and prices, as the configuration and the model server tell them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead_formats.tokens.models import ContextWindows, LiveModels
from fairlead_formats.tokens.prices import ModelPrice
from fairlead_formats.tokens.routes import ModelRoute


class ModelFacts:
    """Facts as they are known now; the functions give those that are configured. One per gateway."""

    def __init__(
        self,
        routes: Callable[[], Mapping[str, ModelRoute]],
        windows: Callable[[], ContextWindows],
        prices: Callable[[], Mapping[str, ModelPrice]],
        live: Callable[[], LiveModels | None],
    ) -> None:
        self._routes = routes
        self._prices = prices
        self._configured = windows
        self._get_live = live
        self._live: LiveModels | None = None
        self._windows = (windows(), windows())
        """Windows as configured, and the same with those of the model server."""

    @property
    def routes(self) -> Mapping[str, ModelRoute]:
        """Routes of models, by name."""
        return self._routes()

    @property
    def prices(self) -> Mapping[str, ModelPrice]:
        """Prices that the installation states, by model."""
        return self._prices()

    @property
    def live(self) -> LiveModels | None:
        """Windows as the model server said last; None without one in the configuration."""
        return self._get_live()

    @property
    def windows(self) -> ContextWindows:
        """Context windows of models. The first look at one reads a small file."""
        configured, live = self._configured(), self.live
        if configured is not self._windows[0] or live is not self._live:
            self._windows = (configured, configured if live is None else configured.with_live(live.models))
            self._live = live
        return self._windows[1]
