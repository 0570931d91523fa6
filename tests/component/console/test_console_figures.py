"""Figures of the console about calls, and metrics about the console."""

from __future__ import annotations

import re
from pathlib import Path

from consoleworld import shops, sign_in, visit
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_app.authentication import Trust
from fairlead_gateway.calls.path.dispatch import CALL
from fixed_authenticator import Names
from gatewayworld import catalog, publish, running
from metricseries import label_set, metric_values
from waiting import eventually

SHOP = catalog("shop", "http://127.0.0.1:9/mcp", ["buy", "steal"])
NO_STEALING = Rules(
    policies=(
        Policy(
            namespace="default",
            name="no-stealing",
            every=True,
            rules=(Rule(action="Deny", tools=("steal",)), Rule(action="Allow", tools=("*",))),
        ),
    )
)
SERVERS = "/console/servers"


def figure(page: str, title: str) -> str:
    """The figure below a label on a page."""
    match = re.search(rf"<dt>{title}</dt><dd>(.*?)</dd>", page)
    assert match is not None
    return re.sub(r"<.*?>", "", match[1]).strip()


async def test_calls_of_tools_that_one_may_not_see_are_in_no_sum(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, NO_STEALING) as gateway:
        for tool, error in (("buy", ""), ("buy", "tool_error"), ("steal", "")):
            gateway.call_metrics.recorder(CALL, tool, "default/shop").record(1_000_000, error)
        pages = [(await visit(gateway, path)).body.decode() for path in (SERVERS, f"{SERVERS}/default/shop")]

    assert [figure(page, "Calls so far") for page in pages] == ["2", "2"]
    assert [re.findall(r"\d+", figure(page, "Errors so far"))[0] for page in pages] == ["1", "1"]
    assert "shop__buy" in pages[1]
    assert "steal" not in pages[1]


async def test_pages_show_what_was_measured_as_soon_as_it_is_served(tmp_path: Path) -> None:
    measured = Quantiles(p50_ms=700, p90_ms=800, p95_ms=812, p99_ms=812, samples=5)
    state = State(
        servers=(ServerState(namespace="default", name="shop", tools=(ToolState(name="buy", quantiles=measured),)),)
    )
    async with running(tmp_path, SHOP) as gateway:
        before = (await visit(gateway, SERVERS)).body.decode()
        swaps = gateway.snapshots.swaps
        publish(tmp_path / "documents", state)
        await eventually(lambda: gateway.snapshots.swaps > swaps)
        after = (await visit(gateway, SERVERS)).body.decode()

    assert "812 ms" not in before
    assert "812 ms" in after


async def test_metrics_count_pages_by_names_that_nobody_else_chooses(tmp_path: Path) -> None:
    async with running(tmp_path, *shops(1, 2), trust=Trust((Names("npc"),))) as gateway:
        cookie = await sign_in(gateway, "npc")
        for path in (SERVERS, f"{SERVERS}/default/shop00", "/console/tools/none", "/console/made-up", "/console/up"):
            await visit(gateway, path, cookie=cookie)
        series = await metric_values(gateway)

    views = series["fairlead_console_views_total"]
    assert views == {
        label_set(page="servers", status="200"): 2,
        label_set(page="tools", status="404"): 1,
        label_set(page="other", status="404"): 2,
        label_set(page="sign-in", status="303"): 1,
    }
    assert series["fairlead_console_view_seconds_total"].keys() == views.keys()
