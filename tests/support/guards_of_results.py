"""Guards of results: those that were kept for one caller, and those that are costly to read: see `guards`."""

from __future__ import annotations

from product_guard import AT, GATEWAY, Guard

ACCOUNT = (
    'return f"{identity.kind} {identity.principal}" if identity.owner else f"anonymous {session}"',
    'return "everybody"',
)
_ALLOWED = (
    "if route is None or (route.constraint is not None and route.constraint.refusal(entry.arguments) is not None):"
)
OWN_SESSIONS = ('return issued_id is not None and self._seal.verifies(issued_id[2], "", issued_id[1])', "return True")
RESULTS = (
    Guard(
        "a result that was kept for another principal, by its id",
        f"{GATEWAY}.calls.results.context_recorder",
        (ACCOUNT,),
        f"{AT}/test_long_results.py::test_policies_bound_results_of_their_subjects_who_alone_read_on",
        "KeyError: 'isError'",
    ),
    Guard(
        "a turn of a model that was kept for another conversation, by a made-up history",
        "fairlead_formats.wire.call_ids",
        (
            ("return generated is not None and generated[1] == _STORED", "return True"),
            ("if any(hint in data for hint in _HINTS):", "if False:"),
        ),
        "tests/component/llm/test_turns_of_conversations.py::test_a_history_that_somebody_made_up_finds_no_kept_turn",
        "Left contains one more item: 'tool'",
    ),
    Guard(
        "a tool that runs twice for one decision of a model, by a client that drops ids of calls",
        "fairlead_llm.stored_turns",
        (
            (
                "TurnKeeping.SURE if all(is_made_here(call.id) for call in calls) else TurnKeeping.NONE",
                "TurnKeeping.SURE",
            ),
            ("TurnKeeping.SURE if client_format.needs_call_ids else TurnKeeping.LIKELY", "TurnKeeping.SURE"),
        ),
        "tests/component/llm/test_clients_that_drop_ids.py"
        "::test_the_callers_calls_go_first_where_nothing_comes_back_of_an_id",
        "turn_not_kept",
    ),
    Guard(
        "results that were kept in another principal's session",
        f"{GATEWAY}.calls.results.context_recorder",
        (ACCOUNT,),
        f"{AT}/test_router.py::test_another_principal_gets_nothing_and_policies_of_today_judge_what_was_kept",
        "assert [{",
    ),
    Guard(
        "a session that an anonymous caller chose, or whose id was altered",
        f"{GATEWAY}.calls.results.context_recorder",
        (OWN_SESSIONS,),
        f"{AT}/test_router.py::test_an_anonymous_caller_goes_on_with_an_issued_session_and_chooses_none",
        "KeyError: 'isError'",
    ),
    Guard(
        "a kept result with arguments that policies deny meanwhile",
        "fairlead_offers.results.session_context",
        ((_ALLOWED, "if route is None:"),),
        f"{AT}/test_router.py::test_another_principal_gets_nothing_and_policies_of_today_judge_what_was_kept",
        "assert [{",
    ),
    Guard(
        "a kept result of a tool that policies deny meanwhile",
        "fairlead_offers.results.session_context",
        ((_ALLOWED, "if False:"), ("if route.must_escape else", "if route is not None and route.must_escape else")),
        f"{AT}/test_long_results.py::test_policies_bound_results_of_their_subjects_who_alone_read_on",
        "today's policies decide",
    ),
    Guard(
        "a fact that a model is made to invent, which is to compress a result",
        "fairlead_search.result_compression",
        ((" and content.supports(sentence)", ""),),
        "tests/component/offers/test_compressed_context.py::test_a_sentence_that_its_result_does_not_bear_out_is_dropped",
        'one["text"] ==',
    ),
    Guard(
        "a result of many odd blocks that holds everybody up while they are mended",
        "fairlead_mcp.tool_results",
        (("MOST_BLOCKS: Final = 1000", "MOST_BLOCKS: Final = 1 << 60"),),
        "tests/unit/mcp/test_tool_results.py::test_over_a_thousand_blocks_of_which_one_is_odd_are_one_text",
        "too many values to unpack",
    ),
)
