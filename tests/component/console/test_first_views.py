"""After somebody has opened a page, the gateway prepares the views that the first pages of a user, and the pages after
a change of the catalog, would otherwise wait for.
"""

from __future__ import annotations

from pathlib import Path

from consoleworld import shops
from fairlead_console.first_views import FirstViews
from fairlead_console.html import Templates
from fairlead_console.static_files import StaticFiles
from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from gatewayworld import publish, running, wait_for_snapshots
from waiting import eventually


async def test_each_piece_is_made_once_for_a_catalog(tmp_path: Path) -> None:
    seen: list[int] = []

    def record_view(catalog: SubjectCatalog) -> None:
        seen.append(len(catalog.view(None).routes))

    async with running(tmp_path, *shops(1, 3)) as gateway:
        views = FirstViews(gateway.rest.services.work.worker, Templates(StaticFiles()))
        views.add(record_view)
        for _ in range(3):
            views.prepare(gateway.rest.services.catalogs.seen_by(ANONYMOUS))
        await eventually(lambda: seen == [3])
        views.prepare(gateway.rest.services.catalogs.seen_by(ANONYMOUS))
        before = gateway.snapshots.swaps
        publish(tmp_path / "documents", *shops(1, 5))
        await wait_for_snapshots(gateway, before + 1)
        views.prepare(gateway.rest.services.catalogs.seen_by(ANONYMOUS))
        await eventually(lambda: len(seen) > 1)

    assert seen == [3, 5]


async def test_a_piece_that_cannot_be_made_leaves_the_rest_to_the_pages(tmp_path: Path) -> None:
    failed: list[str] = []

    def fails(catalog: SubjectCatalog) -> None:
        failed.append("once")
        raise RuntimeError(catalog.identity)

    async with running(tmp_path, *shops(1, 3)) as gateway:
        views = FirstViews(gateway.rest.services.work.worker, Templates(StaticFiles()))
        views.add(fails)
        views.prepare(gateway.rest.services.catalogs.seen_by(ANONYMOUS))
        await eventually(lambda: failed == ["once"])
        assert await gateway.rest.services.work.worker.do(lambda: "goes on") == "goes on"
