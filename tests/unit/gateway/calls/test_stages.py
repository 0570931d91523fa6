"""Each stage of a call in isolation: the calls that it refuses and allows, and the attributes of the call that it
sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from msgspec import Raw

from fairlead_gateway.calls.path import client_call as stages
from fairlead_gateway.calls.path.call import ToolCall
from fairlead_gateway.calls.path.client_call import STAGES, ClientCall, Stage
from fairlead_gateway.calls.path.context import CallContext, CallServices, Introduction
from fairlead_gateway.calls.path.direct import Origin, _CapturingExchange
from fairlead_gateway.calls.questions.input_required import Bridge
from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.results.cache import ResultCache
from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.calls.subscriptions.resource_subscriptions import ResourceSubscriptions
from fairlead_gateway.catalog.model import build
from fairlead_gateway.core.quota import Caps, Quota
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.session import LegacySession
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.limits.limiter import NO_LEASE, Limiter
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp import eras
from fairlead_tools.refusal import OVER_BUDGET, Refusal
from fairlead_tools.refusals import missing_capability
from fairlead_tools.validation.constraint import Constraint, allowance
from fairlead_tools.validation.schema_cache import Checks
from gatewayworld import catalog, entry
from selections import select

CLOCK: Final = 100.0
SCHEMA: Final = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
DEFINITION: Final = json.dumps({"name": "get", "inputSchema": SCHEMA}).encode()
EVEN: Final = Constraint(
    [allowance("rule 0 of policy n/p", {"properties": {"n": {"multipleOf": 2}}})], quote_rules=False
)
LATE: Final = Refusal(OVER_BUDGET, "too slow")
ROUTE: Final = (
    select(build({"web": catalog("web", "http://w", [entry(DEFINITION, requires=("elicitation",))])}))
    .targets[b"/mcp"]
    .everything["web__get"]
)
"""Route of a tool that needs a client capability. Each case replaces the attributes that its stage reads."""
OPEN: Final = replace(ROUTE, unavailable=None)
ASKING: Final = LegacySession(b"s", "2025-11-25", '{"elicitation":{}}')
CHECK: Final = Checks().of("default/web", "get", DEFINITION)


def call(route: Route, arguments: str | None = '{"n":1}', **given: Any) -> ClientCall:
    """A call before its first stage; `given` is that of `tool_call`."""
    return tool_call(route, arguments, **given).call


def tool_call(
    route: Route,
    arguments: str | None = '{"n":1}',
    *,
    limiter: Limiter | None = None,
    cache: ResultCache | None = None,
    opened: LegacySession | None = None,
    **params: str,
) -> ToolCall:
    """The execution of a call before its first stage."""
    client = eras.Client()
    context = CallContext(
        MetricsRegistry(),
        Introduction(client, b"{}"),
        ServerRequests(SessionIds(b"k"), lambda session, params: False),
        ResourceSubscriptions(client),
        Bridge(lambda: CLOCK),
        CallServices(cache=cache, limiter=limiter, clock=lambda: CLOCK),
    )
    named = {} if arguments is None else {"arguments": Raw(arguments.encode())}
    raw = {name: Raw(value.encode()) for name, value in params.items()}
    request = McpRequest(False, "tools/call", b"1", {"name": Raw(b'"get"'), **named, **raw}, b"s" if opened else None)
    request.legacy_session = opened
    return ToolCall(context, _CapturingExchange(Origin(), None, AnswerBuffers()), route, request)


def limiter_with_calls(calls: int) -> Limiter:
    """A limiter in which an agent has made `calls` calls of the tool."""
    limiter = Limiter(clock=lambda: CLOCK)
    for _ in range(calls):
        limiter.admit("anonymous ", None, OPEN.id, Caps(calls_per_minute=2))
    return limiter


CAPPED: Final = replace(OPEN, caps=Caps(calls_per_minute=2), counted=True)
KEEPING: Final = replace(OPEN, cacheable_seconds=60, cache_scope=b"scope")

REFUSED: Final[dict[str, tuple[Stage, Callable[[], ClientCall], str]]] = {
    "a tool above the tier": (stages.check_availability, lambda: call(replace(OPEN, unavailable=LATE)), OVER_BUDGET),
    "a tool above the tier, whatever is declared": (
        stages.check_availability,
        lambda: call(replace(OPEN, unavailable=LATE), opened=ASKING),
        OVER_BUDGET,
    ),
    "a tool for clients with a capability": (
        stages.check_availability,
        lambda: call(ROUTE),
        "MISSING_CLIENT_CAPABILITY",
    ),
    "arguments of a wrong type": (
        stages.check_arguments,
        lambda: call(replace(OPEN, check=CHECK), '{"n":"1"}'),
        "INVALID_ARGUMENTS",
    ),
    "no arguments where some are required": (
        stages.check_arguments,
        lambda: call(replace(OPEN, check=CHECK), None),
        "INVALID_ARGUMENTS",
    ),
    "arguments beyond the policy": (
        stages.check_constraint,
        lambda: call(replace(OPEN, constraint=EVEN)),
        "INVALID_ARGUMENTS",
    ),
    "a server that is offline": (stages.check_online, lambda: call(replace(OPEN, offline=True)), "CONNECTION_LOST"),
    "one call too many": (stages.check_limits, lambda: call(CAPPED, limiter=limiter_with_calls(2)), "RATE_LIMITED"),
}
ALLOWED: Final[dict[str, tuple[Stage, Callable[[], ClientCall]]]] = {
    "an open tool": (stages.check_availability, lambda: call(OPEN)),
    "a tool whose capability was declared": (stages.check_availability, lambda: call(ROUTE, opened=ASKING)),
    "arguments that fit": (stages.check_arguments, lambda: call(replace(OPEN, check=CHECK))),
    "arguments of a tool that is not checked": (stages.check_arguments, lambda: call(OPEN, '{"n":"1"}')),
    "a request that goes on with a call, without arguments": (
        stages.check_arguments,
        lambda: call(replace(OPEN, check=CHECK), None, requestState='"s"'),
    ),
    "arguments within the policy": (stages.check_constraint, lambda: call(replace(OPEN, constraint=EVEN), '{"n":2}')),
    "any arguments without a policy": (stages.check_constraint, lambda: call(OPEN)),
    "a server that is online": (stages.check_online, lambda: call(OPEN)),
    "the last call of a minute": (stages.check_limits, lambda: call(CAPPED, limiter=limiter_with_calls(1))),
    "a call that nothing bounds": (stages.check_limits, lambda: call(OPEN, limiter=limiter_with_calls(2))),
    "a prompt, which no limit is on": (
        stages.check_limits,
        lambda: call(replace(CAPPED, tool=None), limiter=limiter_with_calls(2)),
    ),
}


def test_the_stages_are_those_of_the_table_in_their_order() -> None:
    assert [stage.__name__ for stage in STAGES] == [
        "check_availability",
        "check_arguments",
        "check_constraint",
        "set_result_limit",
        "check_online",
        "check_limits",
        "use_cache",
    ]


def test_the_fewest_tokens_of_tool_policy_and_request_bound_a_result() -> None:
    bounded = call(replace(OPEN, result_tokens=900, quota=Quota("default", result_tokens=700)))
    assert (stages.set_result_limit(bounded), bounded.max_result_tokens) == (None, 700)
    bounded.request.result_tokens = 500
    assert (stages.set_result_limit(bounded), bounded.max_result_tokens) == (None, 500)
    free = call(OPEN)
    free.request.default_tokens = 2000
    assert (stages.set_result_limit(free), free.max_result_tokens) == (None, 2000)


@pytest.mark.parametrize("name", REFUSED)
def test_a_stage_refuses(name: str) -> None:
    stage, make, code = REFUSED[name]
    refusal = stage(make())
    assert refusal is not None
    assert refusal.code == code


@pytest.mark.parametrize("name", ALLOWED)
def test_a_stage_lets_through(name: str) -> None:
    stage, make = ALLOWED[name]
    assert stage(make()) is None


def test_a_tool_for_clients_with_a_capability_says_which() -> None:
    refusal = stages.check_availability(call(ROUTE))
    assert refusal == missing_capability("get", ROUTE.server.key, ("elicitation",))


def test_the_rule_that_refuses_arguments_is_noted_on_the_call() -> None:
    refused = call(replace(OPEN, constraint=EVEN))
    stages.check_constraint(refused)
    assert refused.denying_rules == "rule 0 of policy n/p"


def test_a_server_that_answered_since_it_was_reported_offline_is_tried() -> None:
    route = replace(OPEN, offline=True)
    assert route.guard.enter_now()
    route.guard.leave_after_success()
    assert stages.check_online(call(route)) is None


def test_an_admitted_call_leaves_its_accounts_later_and_a_refused_one_is_in_none() -> None:
    quota = Quota("default", concurrency=1)
    limiter = limiter_with_calls(2)
    admitted = call(replace(OPEN, quota=quota, counted=True), limiter=limiter)
    refused = call(replace(CAPPED, quota=quota), limiter=limiter)
    assert stages.check_limits(admitted) is None
    assert len(admitted.lease) == 1
    assert stages.check_limits(refused) is not None
    assert (refused.lease, refused.limit) == (NO_LEASE, "policy")


KEYLESS: Final[dict[str, dict[str, Any]]] = {
    "of a tool whose results are not kept": {"route": OPEN},
    "that goes on with another": {"requestState": '"s"'},
    "without a session, at a server that has one for each client": {"route": replace(KEEPING, per_client=True)},
    "whose arguments name a member twice": {"arguments": '{"n":1,"n":2}'},
}


@pytest.mark.parametrize("name", KEYLESS)
def test_a_call_is_not_looked_up(name: str) -> None:
    results = ResultCache(1 << 20, lambda: CLOCK)
    made = {"route": KEEPING, "cache": results, **KEYLESS[name]}
    unkeyed = call(**made)
    assert stages.use_cache(unkeyed) is None
    assert unkeyed.cache_key is None
    assert (results.hits, results.misses) == (0, 0)


def test_the_first_call_is_to_keep_its_result_and_an_equal_one_waits_for_it() -> None:
    results = ResultCache(1 << 20, lambda: CLOCK)
    calls = [tool_call(KEEPING, given, cache=results) for given in ('{"n":1}', '{ "n": 1 }', '{"n":2}')]
    assert [stages.use_cache(each.call) for each in calls] == [None] * 3
    for each in calls:
        assert each.call.cache_key is not None
        each._look_up(each.call.cache_key)
    first, second, other = calls
    assert first._cache_key is not None
    assert (second._followed_key, second._cache_key) == (first._cache_key, None)
    assert other._cache_key not in (None, first._cache_key)


def test_sessions_of_one_server_for_each_client_keep_results_apart() -> None:
    results = ResultCache(1 << 20, lambda: CLOCK)
    route = replace(KEEPING, per_client=True)
    mine = call(route, cache=results, opened=ASKING)
    shared = call(KEEPING, cache=results)
    stages.use_cache(mine)
    stages.use_cache(shared)
    assert mine.cache_key is not None
    assert mine.cache_key != shared.cache_key
