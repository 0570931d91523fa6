"""Hosts and origins, refusals, histograms and settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_app.settings import Settings
from fairlead_gateway.calls.translation.errors import detail_of
from fairlead_gateway.telemetry import BOUNDS, OTHER, Histogram, MetricsRegistry
from fairlead_mcp import errors
from fairlead_mcp.addresses import AllowList
from fairlead_mcp.oauth.errors import INTERACTION_REQUIRED, INVALID_GRANT, GrantFailed
from fairlead_tools import refusals
from fairlead_tools.refusal import Refusal
from fairlead_tools.refusals import refusal_for


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        (b"localhost", True),
        (b"localhost:8080", True),
        (b"127.0.0.1:1", True),
        (b"[::1]:8080", True),
        (b"LOCALHOST:8080", True),
        (b"evil.example", False),
        (b"localhost.evil.example:8080", False),
        (b"localhost:8080, evil.example", False),
        (b"127.0.0.1:8080@evil.example", False),
        (b"", False),
        (None, False),
    ],
)
def test_a_gateway_on_a_loopback_address_answers_local_hosts_alone(host: bytes | None, allowed: bool) -> None:
    assert AllowList.for_bind("127.0.0.1").allows_host(host) is allowed


def test_a_gateway_on_another_address_answers_any_host_unless_hosts_are_listed() -> None:
    assert AllowList.for_bind("0.0.0.0").allows_host(b"gateway.fairlead-system")
    listed = AllowList.for_bind("0.0.0.0", hosts=["gateway.example"])
    assert listed.allows_host(b"gateway.example:443")
    assert not listed.allows_host(b"other.example")


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        (b"http://localhost:6274", True),
        (b"https://127.0.0.1", True),
        (b"http://[::1]:5173", True),
        (b"https://evil.example", False),
        (b"null", False),
        (b"http://localhost.evil.example", False),
        (b"file://localhost", False),
    ],
)
@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0"])
def test_web_pages_from_elsewhere_are_refused_unless_listed(origin: bytes | None, allowed: bool, bind: str) -> None:
    assert AllowList.for_bind(bind).allows_origin(origin) is allowed


def test_a_listed_origin_is_allowed_and_the_local_ones_are_not_any_more() -> None:
    allow = AllowList.for_bind("127.0.0.1", origins=["https://app.example"])
    assert allow.allows_origin(b"https://app.example")
    assert not allow.allows_origin(b"http://app.example")
    assert not allow.allows_origin(b"http://localhost:6274")


@pytest.mark.parametrize(
    ("error", "code", "retry"),
    [
        (errors.ConnectFailed("x"), "CONNECTION_LOST", None),
        (errors.ConnectionLost("x", sent=True), "CONNECTION_LOST", None),
        (errors.Timeout("x", sent=True), "TIMEOUT", None),
        (errors.TooLarge("x"), "RESULT_TOO_LARGE", None),
        (errors.PoolFull("x"), "RATE_LIMITED", None),
        (errors.HttpRefused("x", status=429, retry_after="7"), "RATE_LIMITED", 7000),
        (errors.HttpRefused("x", status=503, retry_after="Fri, 31 Dec 1999 23:59:59 GMT"), "UPSTREAM_ERROR", None),
        (errors.HttpRefused("x", status=401), "UPSTREAM_ERROR", None),
        (errors.NotMcp("x"), "UPSTREAM_ERROR", None),
        (errors.BadJson("x"), "UPSTREAM_ERROR", None),
        (errors.BadHttp("x"), "UPSTREAM_ERROR", None),
        (errors.RpcError(-32602, "x"), "INVALID_ARGUMENTS", None),
        (errors.RpcError(-32021, "x"), "MISSING_CLIENT_CAPABILITY", None),
        (errors.RpcError(-32603, "x"), "UPSTREAM_ERROR", None),
    ],
)
def test_each_error_of_the_wire_has_its_code(error: errors.McpError, code: str, retry: int | None) -> None:
    refusal = refusal_for(error)
    assert (refusal.code, refusal.retry_after_ms) == (code, retry)


def test_a_refusal_is_a_result_that_says_why() -> None:
    result = json.loads(refusals.result(Refusal("TIMEOUT", 'too "slow"', 250)))
    assert result == {
        "content": [{"type": "text", "text": 'too "slow"'}],
        "isError": True,
        "_meta": {"fairlead.dev/error": {"code": "TIMEOUT", "message": 'too "slow"', "retryAfterMs": 250}},
    }


def test_claims_of_a_refused_grant_are_in_the_text_and_beside_the_code() -> None:
    claims = '{"access_token":{"polids":{"essential":true}}}'
    refusal = refusal_for(GrantFailed("sign in again", cause=INTERACTION_REQUIRED, claims=claims))
    text = f"sign in again; the new token has to be requested with the claims {claims}"
    error = {"code": "CREDENTIAL_UNAVAILABLE", "message": text, "claims": claims}
    assert json.loads(refusals.result(refusal)) == {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {"fairlead.dev/error": error},
    }
    assert detail_of(refusal) == {"fairlead.dev/error": error}
    without = refusal_for(GrantFailed("sign in again", cause=INVALID_GRANT))
    assert (without.code, without.message, without.claims) == ("CREDENTIAL_UNAVAILABLE", "sign in again", "")


def test_an_observation_falls_into_the_bucket_whose_bound_it_does_not_exceed() -> None:
    series = Histogram()
    for seconds in (0.0, 0.01, 0.010001, 300.0, 301.0):
        series.observe(round(seconds * 1e9))
    assert (series.buckets[0], series.buckets[1], series.buckets[-2], series.buckets[-1]) == (2, 1, 1, 1)
    assert len(series.buckets) == len(BOUNDS) + 1
    assert series.count == 5


def test_label_sets_beyond_the_cap_are_counted_under_other() -> None:
    registry = MetricsRegistry(max_label_sets=2)
    recorders = [registry.recorder("tools/call", f"t{n}", "s") for n in range(4)]
    for _ in range(3):
        for recorder in recorders:
            recorder.record(1)
    seen = {labels[1]: series.count for labels, series in registry.histograms()}
    assert seen == {"t0": 3, "t1": 3, OTHER: 6}
    assert registry.overflowed == 6


def test_the_histogram_of_a_tool_outlives_its_recorder() -> None:
    registry = MetricsRegistry()
    registry.recorder("tools/call", "t", "s").record(1)
    registry.recorder("tools/call", "t", "s").record(1, "TIMEOUT")
    registry.recorder("tools/call", "t", "s").record(1)
    counts = {labels[3]: series.count for labels, series in registry.histograms()}
    assert counts == {"": 2, "TIMEOUT": 1}


def test_settings_come_from_the_environment_and_the_command_line_wins() -> None:
    environ = {
        "FAIRLEAD_PORT": "81",
        "FAIRLEAD_DOCUMENTS": "/srv/x",
        "FAIRLEAD_ALLOWED_HOSTS": "a, b,",
        "FAIRLEAD_CALL_TIMEOUT": "2.5",
        "FAIRLEAD_HOST": " ",
        "FAIRLEAD_LOG_FORMAT": "json",
    }
    settings = Settings.from_env(environ, port=82, host=None)
    listening = settings.listening
    assert (listening.port, listening.address, listening.allowed_hosts) == (82, "127.0.0.1", ("a", "b"))
    assert settings.installation.documents == Path("/srv/x")
    assert (settings.calls.timeout, settings.records.log.format) == (2.5, "json")


@pytest.mark.parametrize(("variable", "value"), [("PORT", "http"), ("GRACE", "soon"), ("LOG_FORMAT", "xml")])
def test_a_setting_that_cannot_be_used_is_named(variable: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"FAIRLEAD_{variable} is '{value}'"):
        Settings.from_env({f"FAIRLEAD_{variable}": value})
