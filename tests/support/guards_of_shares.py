"""Guards of what one principal may hold or cause, so that something is left for all others: see `guards`."""

from __future__ import annotations

from product_guard import GATEWAY, Guard

_HELD = "tests/component/gateway/test_shares.py"
_SHARES = f"{GATEWAY}.limits.shares"
_NO_SHARE = ("if agent and self.each < self.limit and self.of(agent) + weight > self.each:", "if False:")
_NO_LARGEST = ("for key, agent, weight in entries:", 'for key, agent, weight in ((k, "", w) for k, _, w in entries):')
_SESSIONS = "tests/component/speech/test_shares_of_sessions.py"

SHARES = (
    Guard(
        "a crowd of denied calls that pushes the lines of others out of the audit log",
        f"{GATEWAY}.audit.repeats",
        (("if entry.decision not in _COUNTED_DECISIONS:", "if True:"),),
        "tests/unit/gateway/test_repeated_denials.py::"
        "test_a_crowd_of_denials_is_ten_lines_and_one_that_says_how_many_more",
        "== 0",
    ),
    Guard(
        "a denied call that the caller's own crowd of denials hides",
        f"{GATEWAY}.audit.repeats",
        (("key += (str(entry.server), entry.tool)", "pass"),),
        "tests/unit/gateway/test_repeated_denials.py::"
        "test_a_crowd_of_denials_of_one_tool_hides_no_other_tool_and_no_other_agent",
        "assert 0 == 1",
    ),
    Guard(
        "an asker with an IPv6 address for each denied call, all of which are lines",
        f"{GATEWAY}.audit.repeats",
        (("client_of(entry.address))", "entry.address)"),),
        "tests/unit/gateway/test_repeated_denials.py::test_addresses_of_one_ipv6_network_are_one_asker",
        "assert 4107 ==",
    ),
    Guard(
        "an address with every connection",
        f"{GATEWAY}.limits.shares",
        (("limit_each or -(-limit * 3 // 4) or sys.maxsize", "limit_each or sys.maxsize"),),
        "tests/component/gateway/test_crowd.py::"
        "test_connections_of_one_address_take_three_quarters_and_others_get_the_rest",
        "At index 6 diff: True != False",
    ),
    Guard(
        "an agent that takes every speech session",
        _SHARES,
        (_NO_SHARE,),
        f"{_SESSIONS}::test_speech_sessions_of_one_agent_take_its_share_alone",
        "At index 2 diff: 101 != 429",
    ),
    Guard(
        "an agent that opens every stream of notifications",
        _SHARES,
        (_NO_SHARE,),
        f"{_HELD}::test_notification_streams_of_one_agent_take_its_share_alone",
        "assert [200, 200",
    ),
    Guard(
        "an agent whose calls use every process of a `PerClient` server",
        _SHARES,
        (_NO_SHARE,),
        f"{_HELD}::test_upstream_sessions_of_one_agent_take_its_share_alone",
        "TimeoutError",
    ),
    Guard(
        "an agent with every request to models in progress",
        _SHARES,
        (_NO_SHARE,),
        "tests/component/llm/test_shares_of_requests.py::test_model_requests_of_one_agent_take_its_share_alone",
        "KeyError: 'retry-after'",
    ),
    Guard(
        "an agent that follows events on every stream",
        _SHARES,
        (_NO_SHARE,),
        "tests/component/rest/test_shares_of_work.py::test_event_streams_of_one_agent_take_its_share_alone",
        "assert [200, 200",
    ),
    Guard(
        "an agent whose streams name all resources that may be named",
        _SHARES,
        (_NO_SHARE,),
        f"{_HELD}::test_watched_resources_of_one_agent_take_its_share_alone",
        "assert {'key:",
    ),
    Guard(
        "an agent with every request that waits for a server that starts",
        _SHARES,
        (_NO_SHARE,),
        "tests/component/gateway/test_servers_that_start.py::test_waiting_requests_of_one_agent_take_its_share_alone",
        "TimeoutError",
    ),
    Guard(
        "calls that wait for their client, which another agent's have cancelled",
        _SHARES,
        (_NO_LARGEST,),
        "tests/unit/gateway/test_bounded_bytes.py::"
        "test_calls_of_an_agent_that_wait_for_their_client_do_not_cancel_those_of_others",
        "assert not True",
    ),
    Guard(
        "a stream that another agent's streams push out before it is resumed",
        _SHARES,
        (_NO_LARGEST,),
        "tests/unit/gateway/test_shares.py::"
        "test_streams_to_resume_of_an_agent_with_thousands_do_not_push_those_of_others_out",
        "assert None ==",
    ),
    Guard(
        "an agent whose searches have everybody else's refused",
        f"{GATEWAY}.limits.fair_rotation",
        (("evicted_waiter = self._waiting.give_way(agent)", "evicted_waiter = None"),),
        "tests/component/rest/test_shares_of_work.py::"
        "test_an_agent_that_fills_the_queue_of_work_is_refused_and_others_are_not",
        "TimeoutError",
    ),
    Guard(
        "an agent whose searches all go before those of others",
        f"{GATEWAY}.limits.fair_rotation",
        (("agent, waiter = WORKS_FOR.get(),", 'agent, waiter = "",'),),
        "tests/unit/gateway/test_turns.py::test_an_agent_with_hundreds_of_pieces_delays_another_by_one",
        "TimeoutError",
    ),
    Guard(
        "sockets without a setup that take the slots of speech sessions",
        "fairlead_speech.gemini.endpoint",
        (("slot.take_for_setup()", "slot.take_for_session()"), ("return\n        slot.take_for_session()", "return")),
        f"{_SESSIONS}::test_sockets_without_a_setup_take_no_slot_of_a_session_and_no_more_than_their_share",
        "503",
    ),
    Guard(
        "a request to a model whose hundred thousand items hold everybody up",
        "fairlead_llm.llm_endpoint",
        (
            ("excess = await services.tools.work.excess(body)", "excess = None"),
            ("long=is_long(body))\n        response", "long=False)\n        response"),
        ),
        "tests/component/llm/test_many_items.py::"
        "test_a_request_with_more_items_than_a_conversation_has_is_refused_in_the_form_of_its_api",
        "assert",
    ),
    Guard(
        "a request over REST whose million calls take a minute",
        "fairlead_rest.context",
        (('excess = await self.services.work.excess(b"".join(pieces))', "excess = None"),),
        "tests/component/rest/test_many_calls.py::test_a_body_with_more_items_or_values_than_are_read_is_refused",
        "assert 200 == 400",
    ),
    Guard(
        "a `_meta` of megabytes that is read twice",
        "fairlead_gateway.endpoint.inbound",
        (("    if len(raw) > LONG_BYTES:\n", "    if False:\n"),),
        "tests/unit/gateway/test_inbound.py::test_a_large_meta_is_refused_before_it_is_read",
        "assert False",
    ),
    Guard(
        "params of a hundred thousand members, each an object of its own",
        "fairlead_gateway.endpoint.inbound",
        (("if len(body) > LONG_BYTES and _has_many_members(body):", "if False:"),),
        "tests/unit/gateway/test_inbound.py::"
        "test_params_of_tens_of_thousands_of_members_are_refused_and_large_arguments_are_not",
        "assert False",
    ),
    Guard(
        "a result of millions of values, read twice",
        "fairlead_mcp.jsonrpc",
        (("    if len(raw) > _HUGE:\n", "    if False:\n"),),
        "tests/unit/mcp/test_jsonrpc.py::test_a_response_of_more_values_than_a_result_may_have_is_refused",
        "DID NOT RAISE",
    ),
    Guard(
        "an answer of a model whose million calls hold everybody up for 22 seconds",
        "fairlead_llm.llm_endpoint",
        (("excess = await self._services.tools.work.excess(body)", "excess = None"),),
        "tests/component/llm/test_hostile_providers.py::"
        "test_an_answer_or_an_event_of_more_values_than_are_read_is_refused",
        "more than 200,000 values",
    ),
    Guard(
        "one event of a model's answer that holds everybody up for three seconds",
        "fairlead_llm.streaming",
        (("reason = explain_excess(data) if is_long(data) else None", "reason = None"),),
        "tests/component/llm/test_hostile_providers.py::"
        "test_an_answer_or_an_event_of_more_values_than_are_read_is_refused",
        "more than 200,000 values",
    ),
    Guard(
        "a refusal of a model that takes half a second to read",
        "fairlead_models.provider_requests",
        (("if self.status != _OK and len(received) > MAX_REFUSAL:", "if False:"),),
        "tests/component/llm/test_hostile_providers.py::test_a_refusal_of_megabytes_is_read_by_its_status_alone",
        'assert b\'{"error":',
    ),
)
