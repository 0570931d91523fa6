"""Things made of views, kept for the snapshot that is served now. Used in the worker alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.policy.view import View
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog


class OfView(Protocol):
    """Something that holds the view it was made of."""

    @property
    def view(self) -> View: ...


Kept = TypeVar("Kept", bound=OfView)


class KeptByView(Generic[Kept]):
    """One for each requested view, the least used dropped first."""

    def __init__(self, make: Callable[[View, Snapshot], Kept], most: int) -> None:
        """At most `most` are kept."""
        self._make = make
        self._most = most
        self._snapshot: Snapshot | None = None
        self._items: OrderedDict[int, Kept] = OrderedDict()

    def of(self, seen: SubjectCatalog, tier: str | None) -> Kept:
        """That of a tier's view, of the default one with None. Raises Problem."""
        view = seen.view(tier)
        if self._snapshot is not seen.snapshot:
            self._snapshot = seen.snapshot
            self._items = OrderedDict()
        item = self._items.get(id(view))  # unique: what is kept holds its view
        if item is None:
            item = self._items[id(view)] = self._make(view, seen.snapshot)
            if len(self._items) > self._most:
                self._items.popitem(last=False)
        else:
            self._items.move_to_end(id(view))
        return item
