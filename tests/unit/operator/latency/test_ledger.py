"""Which state documents are written, and when."""

from __future__ import annotations

from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, DeclaredLatency, HttpEndpoint, ToolEntry
from fairlead_api.documents.codec import decode, encode
from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import State
from fairlead_api.meta import ServerKey
from fairlead_operator.latency.ledger import Ledger, ToolKey
from fairlead_operator.latency.samples import AttemptOutcome, Sample

TIERS = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000))
STAMP = "2026-01-01T00:00:00Z"
ROPE = ToolKey(ServerKey("shop", "chandler"), "rope", "cluster")


def catalog(name: str = "chandler", tools: tuple[str, ...] = ("rope", "tar"), estimated: int | None = None) -> Catalog:
    entries = [
        ToolEntry(
            name=tool,
            definition=Raw(b"{}"),
            hash=tool,
            search_hash=tool,
            latency=DeclaredLatency(estimated_duration_ms=estimated),
        )
        for tool in tools
    ]
    return Catalog(
        namespace="shop",
        name=name,
        uid=name,
        generation=1,
        endpoint=HttpEndpoint(url="http://x/mcp"),
        protocol_version="2026-07-28",
        tools=tuple(entries),
    )


def ledger(*catalogs: Catalog) -> Ledger:
    made = Ledger(TIERS)
    for each in catalogs or (catalog(),):
        made.take_catalog(each, 0.0)
    return made


def calls(count: int, milliseconds: float, at: float = 0.0) -> list[Sample]:
    return [Sample(f"{at} {milliseconds} {n}", at, milliseconds, AttemptOutcome.OK) for n in range(count)]


def publish(ledger: Ledger, now: float) -> list[State]:
    due = [decode(encode(state)) for state in ledger.due_documents(now, STAMP)]
    for state in due:
        assert isinstance(state, State)
        ledger.take_stored(state, now)
    return due  # type: ignore[return-value]  # the loop has looked


def test_a_server_that_nobody_called_writes_nothing() -> None:
    assert publish(ledger(), 0.0) == []


def test_steady_figures_are_published_once_and_then_not_again() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(20, 100.0), 0.0)
    assert len(publish(figures, 0.0)) == 1
    figures.add_samples(ROPE, calls(20, 105.0, at=61.0), 61.0)
    assert publish(figures, 61.0) == []


def test_steady_figures_are_published_again_once_far_more_calls_stand_behind_them() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(2, 100.0), 0.0)
    publish(figures, 0.0)
    figures.add_samples(ROPE, calls(5, 100.0, at=61.0), 61.0)
    assert publish(figures, 61.0) == []
    figures.add_samples(ROPE, calls(1, 100.0, at=122.0), 122.0)
    (state,) = publish(figures, 122.0)
    assert state.servers[0].tools[0].quantiles is not None
    assert state.servers[0].tools[0].quantiles.samples == 8


def test_figures_that_moved_by_more_than_a_tenth_wait_for_a_minute() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(20, 100.0), 0.0)
    publish(figures, 0.0)
    figures.add_samples(ROPE, calls(80, 150.0, at=10.0), 10.0)
    assert publish(figures, 59.0) == []
    (state,) = publish(figures, 60.0)
    assert state.servers[0].tools[0].quantiles is not None
    assert state.servers[0].tools[0].quantiles.p50_ms == 150.0


def test_a_ledger_with_a_shorter_interval_publishes_new_figures_sooner() -> None:
    figures = Ledger(TIERS, figures_every=2.0)
    figures.take_catalog(catalog(), 0.0)
    figures.add_samples(ROPE, calls(20, 100.0), 0.0)
    publish(figures, 0.0)
    figures.add_samples(ROPE, calls(80, 150.0, at=1.0), 1.0)
    assert publish(figures, 1.0) == []
    assert len(publish(figures, 2.0)) == 1


def test_a_document_for_one_tool_leaves_the_figures_of_steady_ones_as_they_were() -> None:
    figures = ledger()
    tar = ToolKey(ROPE.server, "tar", "cluster")
    figures.add_samples(ROPE, calls(20, 100.0), 0.0)
    figures.add_samples(tar, calls(20, 100.0), 0.0)
    figures.decide(0.0)
    publish(figures, 0.0)
    figures.add_samples(ROPE, calls(80, 105.0, at=1.0), 1.0)
    figures.add_samples(tar, calls(10, 900.0, at=1.0), 1.0)
    figures.decide(1.0)
    (state,) = publish(figures, 1.0)
    rope, moved = (tool.quantiles for tool in state.servers[0].tools)
    assert rope is not None
    assert moved is not None
    assert (rope.p50_ms, rope.p99_ms, rope.samples) == (100.0, 100.0, 100)
    assert moved.p99_ms == 900.0
    figures.add_samples(ROPE, calls(100, 112.0, at=2.0), 2.0)
    figures.rewrite(0)
    (state,) = publish(figures, 2.0)
    assert [tool.quantiles.p50_ms for tool in state.servers[0].tools if tool.quantiles] == [112.0, 900.0]


def test_the_reasons_of_a_document_state_the_quantile_that_stands_in_its_figures() -> None:
    figures = ledger()
    tar = ToolKey(ROPE.server, "tar", "cluster")
    figures.add_samples(ROPE, calls(20, 100.0), 0.0)
    figures.add_samples(tar, calls(20, 100.0), 0.0)
    figures.decide(0.0)
    publish(figures, 0.0)
    figures.add_samples(ROPE, calls(80, 105.0, at=1.0), 1.0)
    figures.add_samples(tar, calls(10, 900.0, at=1.0), 1.0)
    figures.decide(1.0)
    (state,) = publish(figures, 1.0)
    for tool in state.servers[0].tools:
        assert tool.quantiles is not None
        for reason in (*tool.fits.values(), *tool.hidden.values()):
            assert f"p95={tool.quantiles.p95_ms:.0f}ms" in reason, tool


def test_a_tool_that_leaves_a_tier_is_published_with_the_figures_that_decided_it() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(100, 490.0), 0.0)
    figures.decide(0.0)
    publish(figures, 0.0)
    figures.add_samples(ROPE, calls(30, 530.0, at=1.0), 1.0)
    assert [move.tiers_after for move in figures.decide(1.0)] == [("deep",)]
    (state,) = publish(figures, 1.0)
    (rope,) = state.servers[0].tools
    assert rope.quantiles is not None
    assert rope.quantiles.p95_ms == 530.0
    assert "over_budget p95=530ms tier=500ms" in rope.hidden["fast"]


def test_a_tool_that_leaves_a_tier_is_published_at_once() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(20, 100.0), 0.0)
    publish(figures, 0.0)
    figures.add_samples(ROPE, calls(5, 900.0, at=1.0), 1.0)
    (move,) = figures.decide(1.0)
    assert (move.tool, move.tiers_before, move.tiers_after) == (ROPE, ("fast", "deep"), ("deep",))
    (state,) = publish(figures, 1.0)
    assert state.servers[0].tools[0].tiers == ("deep",)
    assert "late=5/5" in state.servers[0].tools[0].hidden["fast"]
    assert "left the fast tier: 5 of its last 5 calls took over 500 ms (p95 900 ms)" in move.sentence
    assert publish(figures, 2.0) == []


def test_a_document_that_could_not_be_written_is_due_again() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(5, 900.0), 0.0)
    figures.decide(0.0)
    assert len(figures.due_documents(0.0, STAMP)) == 1
    assert len(figures.due_documents(0.1, STAMP)) == 1


def test_an_operator_that_starts_again_publishes_nothing_and_forgets_nothing() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(20, 100.0) + calls(5, 900.0, at=1.0), 1.0)
    figures.decide(1.0)
    (state,) = publish(figures, 1.0)
    again = Ledger(TIERS)
    again.restore([state])
    again.take_catalog(catalog(), 0.0)
    assert publish(again, 0.0) == []
    assert again.states(ROPE.server, 0.0) == state.servers[0].tools
    again.add_samples(ROPE, calls(1, 100.0, at=2.0), 2.0)
    assert again.decide(2.0) == []


def test_tools_and_servers_that_are_gone_leave_the_documents() -> None:
    figures = ledger(catalog(), catalog("other"))
    tar = ToolKey(ServerKey("shop", "other"), "tar", "cluster")
    for key in (ROPE, tar):
        figures.add_samples(key, calls(20, 100.0), 0.0)
    publish(figures, 0.0)
    figures.take_catalog(catalog(tools=("tar",)), 1.0)
    figures.forget({ROPE.server})
    (state,) = publish(figures, 1.0)
    assert state.servers == ()


def test_samples_of_tools_that_nobody_knows_are_refused() -> None:
    assert not ledger().add_samples(ToolKey(ROPE.server, "sextant", "cluster"), calls(1, 5.0), 0.0)


def test_a_new_declaration_counts_until_a_tool_is_measured() -> None:
    figures = ledger(catalog(tools=("rope", "tar"), estimated=800))
    tar = ToolKey(ROPE.server, "tar", "cluster")
    figures.add_samples(ROPE, calls(12, 100.0), 0.0)
    figures.add_samples(tar, calls(2, 100.0), 0.0)
    figures.decide(0.0)
    publish(figures, 0.0)
    assert [state.tiers for state in figures.states(ROPE.server, 0.0)] == [("fast", "deep"), ("deep",)]
    figures.take_catalog(catalog(tools=("rope", "tar"), estimated=50), 1.0)
    (move,) = figures.decide(1.0)
    assert (move.tool, move.tiers_after) == (tar, ("fast", "deep"))
    figures.take_catalog(catalog(tools=("rope", "tar"), estimated=900), 2.0)
    (move,) = figures.decide(2.0)
    assert (move.tool, move.tiers_after) == (tar, ("deep",))
    assert "left the fast tier: it declares 900 ms, and the tier allows 500 ms" in move.sentence


def test_an_equal_catalog_changes_nothing() -> None:
    figures = ledger()
    before = figures.changes
    figures.take_catalog(catalog(), 1.0)
    assert figures.changes == before


def restart(state: State, now: float = 0.0, tiers: tuple[Tier, ...] = TIERS) -> Ledger:
    again = Ledger(TIERS)
    again.restore([state])
    again.use_tiers(tiers, now)
    again.take_catalog(catalog(), now)
    return again


def test_a_hidden_tool_that_nobody_calls_is_tried_again_after_a_restart() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(5, 900.0), 0.0)
    figures.decide(0.0)
    (state,) = publish(figures, 0.0)
    again = restart(state, 1000.0)
    assert [again.decide(now) for now in (1000.0, 1001.0, 1029.0)] == [[], [], []]
    (move,) = again.decide(1030.0)
    assert (move.tool, move.tiers_after) == (ROPE, ("fast", "deep"))


def test_a_tier_that_changed_while_the_operator_was_away_decides_again() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(20, 900.0), 0.0)
    figures.decide(0.0)
    (state,) = publish(figures, 0.0)
    assert state.servers[0].tools[0].tiers == ("deep",)
    again = restart(state, tiers=(Tier(name="fast", max_latency_ms=1000, default=True), TIERS[1]))
    again.decide(0.0)
    (state,) = publish(again, 0.0)
    assert state.servers[0].tools[0].tiers == ("fast", "deep")
    assert "tier=1000ms" in state.servers[0].tools[0].fits["fast"]


def test_decisions_of_other_tiers_are_moves_and_published_at_once() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(20, 300.0), 0.0)
    figures.decide(0.0)
    publish(figures, 0.0)
    new = Tier(name="new", max_latency_ms=400)
    figures.use_tiers((Tier(name="fast", max_latency_ms=200), new, TIERS[1]), 1.0)
    (move,) = figures.decide(1.0)
    assert (move.tiers_before, move.tiers_after) == (("fast", "new", "deep"), ("new", "deep"))
    (state,) = publish(figures, 1.0)
    assert state.servers[0].tools[0].tiers == ("new", "deep")


def test_principals_of_a_tier_do_not_change_what_it_shows() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(20, 100.0) + calls(2, 900.0, at=1.0), 0.0)
    figures.decide(0.0)
    publish(figures, 0.0)
    figures.use_tiers((Tier(name="fast", max_latency_ms=500, call_timeout_ms=900), TIERS[1]), 1.0)
    assert figures.decide(1.0) == []
    assert publish(figures, 1.0) == []
    assert figures.states(ROPE.server, 1.0)[0].points["fast"] == 12


def test_figures_of_two_environments_stay_apart() -> None:
    figures = ledger()
    there = ToolKey(ROPE.server, ROPE.name, "local")
    figures.add_samples(ROPE, calls(20, 100.0), 0.0)
    figures.add_samples(there, calls(20, 10.0), 0.0)
    assert [(s.environment, s.quantiles and s.quantiles.p50_ms) for s in figures.states(ROPE.server, 0.0)] == [
        ("cluster", 100.0),
        ("local", 10.0),
    ]


def test_a_hundred_servers_share_a_document_and_the_next_begins_another() -> None:
    figures = ledger(*(catalog(f"s{n:03}") for n in range(101)))
    for n in range(101):
        figures.add_samples(ToolKey(ServerKey("shop", f"s{n:03}"), "rope", "cluster"), calls(20, 100.0), 0.0)
    assert [len(state.servers) for state in publish(figures, 0.0)] == [100, 1]


def test_other_tiers_judge_earlier_measurements_again() -> None:
    figures = ledger()
    figures.add_samples(ROPE, calls(20, 300.0), 0.0)
    figures.use_tiers((Tier(name="fast", max_latency_ms=200), Tier(name="deep", max_latency_ms=4000)), 1.0)
    figures.decide(1.0)
    assert figures.states(ROPE.server, 1.0)[0].tiers == ("deep",)


def test_measurements_from_before_the_tiers_count_when_the_tiers_are_known() -> None:
    early = Ledger(())
    always = ledger()
    early.take_catalog(catalog(), 0.0)
    for figures in (early, always):
        assert figures.add_samples(ROPE, calls(5, 700.0), 0.0)
        figures.set_probed(ROPE.server, {ROPE.name})
        figures.decide(0.0)
    assert [state.servers for state in publish(early, 0.0)] == [()]
    early.use_tiers(TIERS, 1.0)
    early.decide(1.0)
    ((now,), (then,)) = (figures.states(ROPE.server, 1.0) for figures in (early, always))
    assert now.tiers == ("deep",)
    assert (now.quantiles, now.points, now.tiers) == (then.quantiles, then.points, then.tiers)
    assert publish(early, 1.0)


def test_servers_that_are_gone_before_the_tiers_are_known_leave_nothing() -> None:
    figures = Ledger(())
    figures.take_catalog(catalog(), 0.0)
    figures.add_samples(ROPE, calls(5, 700.0), 0.0)
    figures.forget(())
    figures.use_tiers(TIERS, 1.0)
    figures.take_catalog(catalog(), 1.0)
    assert figures.states(ROPE.server, 1.0) == ()
