"""The shipped alert rules with their waiting times, ranges and thresholds, tested by `promtool test rules`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from prometheus import program

RULES = Path(__file__).parents[3] / "charts/fairlead/alerts/fairlead.yaml"
ALERTS = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
CALLS = 'mcp_server_operation_duration_seconds_count{mcp_method_name="tools/call",fairlead_server="a/b"'
LAG = "fairlead_operator_sample_lag_seconds_bucket"
TOOL = 'gen_ai_tool_name="t",fairlead_server="a/b"'


@dataclass(frozen=True)
class Story:
    """Series by minute (`1x5`: the value 1, repeated five more times), and the minutes at which the alert is quiet,
    fires, and is quiet again.
    """

    series: dict[str, str]
    quiet: int
    fires: int
    clear: int


STORIES = {
    "FairleadGatewayAbsent": Story({"fairlead_build_info": "_x10 1x20"}, 4, 6, 15),
    "FairleadServerDown": Story({'fairlead_server_up{fairlead_server="a/b"}': "0x10 1x20"}, 4, 6, 15),
    "FairleadBreakerOpen": Story({'fairlead_breaker_state{fairlead_server="a/b"}': "2 1x4 0x20"}, 0, 2, 10),
    "FairleadPodLeft": Story({'fairlead_server_pods{fairlead_server="a/b",state="left"}': "1x10 0x20"}, 4, 6, 15),
    "FairleadModelBreakerOpen": Story(
        {'fairlead_model_breaker_state{gen_ai_provider_name="p",gen_ai_request_model="m"}': "2 1x4 0x20"}, 0, 2, 10
    ),
    "FairleadCallsFail": Story(
        {f'{CALLS},error_type="TIMEOUT"}}': "0+10x15 150x30", f'{CALLS},error_type=""}}': "0+60x45"}, 4, 8, 25
    ),
    "FairleadBudgetBreaches": Story(
        {
            'fairlead_tier_budget_breaches_total{fairlead_tier="fast"}': "0+6x20 120x40",
            'fairlead_tier_call_duration_seconds_count{fairlead_tier="fast"}': "0+60x60",
        },
        9,
        13,
        35,
    ),
    "FairleadToolLeftTier": Story(
        {'fairlead_tool_in_tier{gen_ai_tool_name="t",fairlead_server="a/b",fairlead_tier="fast"}': "1x5 0x30 1x20"},
        15,
        18,
        45,
    ),
    "FairleadToolDegraded": Story(
        {'fairlead_tool_degraded{gen_ai_tool_name="t",fairlead_server="a/b"}': "1x15 0x20"}, 9, 12, 25
    ),
    "FairleadCallsQueue": Story(
        {'fairlead_upstream_connections{fairlead_server="a/b",state="waiting"}': "11x10 10x20"}, 4, 6, 15
    ),
    "FairleadDecisionsStale": Story({"fairlead_pull_age_seconds": "61x5 60x20"}, 1, 3, 10),
    "FairleadCatalogStale": Story({'fairlead_catalog_stale{instance="g"}': "1x10 0x20"}, 4, 6, 15),
    "FairleadDocumentsBroken": Story({'fairlead_documents_broken{instance="g"}': "1x10 0x20"}, 4, 6, 15),
    "FairleadConfigReloadFailed": Story({'fairlead_config_reload_failed{instance="g"}': "1x10 0x20"}, 4, 6, 15),
    "FairleadGrantsFull": Story({'fairlead_grants_fill_ratio{instance="g"}': "0.9x10 0.5x20"}, 4, 6, 15),
    "FairleadOperatorNotLeading": Story(
        {'fairlead_operator_leader{instance="o"}': "0x20", 'fairlead_operator_leader{instance="p"}': "0x5 1x15"},
        1,
        3,
        10,
    ),
    "FairleadServersNotReady": Story(
        {'fairlead_operator_servers_ready{ready="False",reason="StartFailed"}': "1x20 0x20"}, 14, 16, 30
    ),
    "FairleadGatewaySilent": Story({'fairlead_operator_gateways{state="silent"}': "1x5 0x20"}, 1, 3, 10),
    "FairleadSampleLag": Story(
        {f'{LAG}{{le="10"}}': "0x60", f'{LAG}{{le="30"}}': "0+60x15 900x45", f'{LAG}{{le="+Inf"}}': "0+60x15 900x45"},
        4,
        8,
        25,
    ),
    "FairleadProbesFail": Story(
        {
            'fairlead_operator_probes_total{outcome="none"}': "0+6x30 180x180",
            'fairlead_operator_probes_total{outcome="ok"}': "0+5x30 150x180",
        },
        14,
        18,
        170,
    ),
    "FairleadPublishingFails": Story(
        {'fairlead_operator_publish_failures_total{what="state"}': "0+1x20 20x30"}, 9, 13, 35
    ),
    "FairleadWritesUndone": Story(
        {'fairlead_operator_undone_writes_total{resource="deployments"}': "0 4 6+1x20 26x30"}, 4, 12, 45
    ),
    "FairleadDefinitionsHeld": Story({'fairlead_held_definitions{namespace="n",server="s"}': "2x10 0x20"}, 4, 6, 15),
}


READY = "fairlead_operator_servers_ready"
STAYS_QUIET: dict[str, dict[str, str]] = {
    "FairleadGatewayAbsent": {'fairlead_build_info{instance="g"}': "1x60"},
    "FairleadServerDown": {
        'fairlead_server_up{fairlead_server="a/b"}': "0x60",
        'fairlead_server_stopped{fairlead_server="a/b"}': "1x60",
        'fairlead_server_up{fairlead_server="a/c"}': "1x60",
    },
    "FairleadBreakerOpen": {
        'fairlead_breaker_state{fairlead_server="a/b"}': "0x60",
        'fairlead_breaker_state{fairlead_server="a/uncalled"}': "1x60",
        'fairlead_breaker_state{fairlead_server="a/once"}': "0x5 2 0x54",
    },
    "FairleadPodLeft": {
        'fairlead_server_pods{fairlead_server="a/b",state="left"}': "0x60",
        'fairlead_server_pods{fairlead_server="a/b",state="serving"}': "3x60",
    },
    "FairleadModelBreakerOpen": {
        'fairlead_model_breaker_state{gen_ai_provider_name="p",gen_ai_request_model="m"}': "0x60",
        'fairlead_model_breaker_state{gen_ai_provider_name="p",gen_ai_request_model="uncalled"}': "1x60",
    },
    "FairleadCallsFail": {
        f'{CALLS},error_type="RATE_LIMITED"}}': "0+600x60",
        f'{CALLS},error_type="tool_error"}}': "0+60x60",
        f'{CALLS},error_type="TIMEOUT"}}': "0+5x60",
        f'{CALLS},error_type=""}}': "0+60x60",
        f'{CALLS.replace("a/b", "a/stopped")},error_type="CONNECTION_LOST"}}': "0+60x60",
        'fairlead_server_stopped{fairlead_server="a/stopped"}': "1x60",
    },
    "FairleadBudgetBreaches": {
        'fairlead_tier_budget_breaches_total{fairlead_tier="fast"}': "0+2x60",
        'fairlead_tier_call_duration_seconds_count{fairlead_tier="fast"}': "0+60x60",
    },
    "FairleadToolLeftTier": {
        'fairlead_tool_in_tier{gen_ai_tool_name="t",fairlead_server="a/b",fairlead_tier="fast"}': "0x60",
        'fairlead_tool_in_tier{gen_ai_tool_name="t",fairlead_server="a/b",fairlead_tier="deep"}': "1x60",
    },
    "FairleadToolDegraded": {'fairlead_tool_degraded{gen_ai_tool_name="t",fairlead_server="a/b"}': "0 1x5 0x54"},
    "FairleadCallsQueue": {
        'fairlead_upstream_connections{fairlead_server="a/b",state="waiting"}': "10x60",
        'fairlead_upstream_connections{fairlead_server="a/b",state="busy"}': "64x60",
    },
    "FairleadDecisionsStale": {"fairlead_pull_age_seconds": "60x60"},
    "FairleadCatalogStale": {'fairlead_catalog_stale{instance="g"}': "1x3 0x57"},
    "FairleadDocumentsBroken": {'fairlead_documents_broken{instance="g"}': "1x3 0x57"},
    "FairleadConfigReloadFailed": {'fairlead_config_reload_failed{instance="g"}': "1x3 0x57"},
    "FairleadGrantsFull": {'fairlead_grants_fill_ratio{instance="g"}': "0.8x60"},
    "FairleadOperatorNotLeading": {
        'fairlead_operator_leader{instance="o"}': "0x60",
        'fairlead_operator_leader{instance="p"}': "1x60",
    },
    "FairleadServersNotReady": {
        f'{READY}{{ready="False",reason="Stopped"}}': "2x60",
        f'{READY}{{ready="False",reason="SignInRequired"}}': "1x60",
        f'{READY}{{ready="True",reason="AsExpected"}}': "5x60",
    },
    "FairleadGatewaySilent": {
        'fairlead_operator_gateways{state="silent"}': "0x60",
        'fairlead_operator_gateways{state="answering"}': "2x60",
    },
    "FairleadSampleLag": {
        f'{LAG}{{le="10"}}': "0+60x60",
        f'{LAG}{{le="30"}}': "0+62x60",
        f'{LAG}{{le="+Inf"}}': "0+62x60",
    },
    "FairleadProbesFail": {
        'fairlead_operator_probes_total{outcome="none"}': "0+5x60",
        'fairlead_operator_probes_total{outcome="ok"}': "0+6x60",
    },
    "FairleadPublishingFails": {
        'fairlead_operator_publish_failures_total{what="state"}': "7x60",
        'fairlead_operator_publish_failures_total{what="rules"}': "0x10 1x50",
        'fairlead_operator_publish_failures_total{what="catalog"}': "0x10 5 10 15x48",
    },
    "FairleadWritesUndone": {'fairlead_operator_undone_writes_total{resource="deployments"}': "0 1 2 3x57"},
    "FairleadDefinitionsHeld": {'fairlead_held_definitions{namespace="n",server="s"}': "0x60"},
}
"""Series of an hour during which the alert stays quiet: intended states, healthy states, and short failures."""


def test_every_alert_has_series_that_fire_it_and_some_that_do_not() -> None:
    assert list(STORIES) == ALERTS
    assert list(STAYS_QUIET) == ALERTS


@pytest.mark.parametrize("alert", STORIES)
def test_the_shipped_rule_waits_fires_and_clears(alert: str, tmp_path: Path) -> None:
    story = STORIES[alert]
    expected: dict[int, list[object]] = {story.quiet: [], story.fires: [{"labels": "{}", "value": 1}], story.clear: []}
    run_rule(alert, story.series, expected, tmp_path)


@pytest.mark.parametrize("alert", STAYS_QUIET)
def test_the_shipped_rule_does_not_fire_at_what_is_meant_or_passes(alert: str, tmp_path: Path) -> None:
    run_rule(alert, STAYS_QUIET[alert], {minute: [] for minute in range(61)}, tmp_path)


@pytest.mark.parametrize(
    ("alert", "series"),
    [
        ("FairleadToolLeftTier", {f'fairlead_tool_in_tier{{{TOOL},fairlead_tier="fast"}}': "1x5 " + "0 1 0 " * 15}),
        ("FairleadToolDegraded", {f"fairlead_tool_degraded{{{TOOL}}}": "0x5 " + "1 0 1 " * 15}),
    ],
)
def test_a_tool_that_is_shown_for_a_trial_now_and_then_is_told_all_the_same(
    alert: str, series: Mapping[str, str], tmp_path: Path
) -> None:
    run_rule(alert, series, {15: [], 18: [{"labels": "{}", "value": 1}], 40: [{"labels": "{}", "value": 1}]}, tmp_path)


BREAKERS = (
    ("FairleadBreakerOpen", 'fairlead_breaker_state{fairlead_server="a/b"}'),
    ("FairleadModelBreakerOpen", 'fairlead_model_breaker_state{gen_ai_provider_name="p",gen_ai_request_model="m"}'),
)


@pytest.mark.parametrize(("alert", "series"), BREAKERS)
@pytest.mark.parametrize(
    ("values", "fires", "clear"),
    [
        pytest.param("2x5 0x30", 5, 6, id="closed"),
        pytest.param("2x5 1x30", 9, 11, id="no calls any more"),
        pytest.param("2x5 stale", 5, 6, id="server gone"),
    ],
)
def test_an_alert_about_a_breaker_ends_when_it_closes_is_not_tried_or_is_gone(
    alert: str, series: str, values: str, fires: int, clear: int, tmp_path: Path
) -> None:
    firing = [{"labels": "{}", "value": 1}]
    expected: dict[int, Sequence[object]] = {2: firing, fires: firing, clear: [], 30: []}
    run_rule(alert, {series: values}, expected, tmp_path)


@pytest.mark.parametrize(("alert", "series"), BREAKERS)
def test_an_alert_about_a_breaker_goes_on_while_calls_try_it(alert: str, series: str, tmp_path: Path) -> None:
    expected = {minute: [{"labels": "{}", "value": 1}] for minute in range(2, 60)}
    run_rule(alert, {series: "2 " + "1 1 2 " * 20}, expected, tmp_path)


def run_rule(alert: str, series: Mapping[str, str], expected: Mapping[int, Sequence[object]], folder: Path) -> None:
    """`expected`: by minute, the labels of the alerts that fire."""
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": firing, "eval_time": f"{minute}m", "exp_samples": samples} for minute, samples in expected.items()
        ],
    }
    file = folder / "story.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([program("promtool"), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
