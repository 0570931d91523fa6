"""Guards of what one principal may hold or cause, so that something is left for all others: see `guards`."""

from __future__ import annotations

from product_guard import GATEWAY, Guard

_SESSIONS = "tests/component/speech/test_shares_of_sessions.py"

SHARES = (
    Guard(
        "a crowd of denied calls that pushes the lines of others out of the audit log",
        f"{GATEWAY}.audit.repeats",
        (("if entry.decision not in _SUMMED:", "if True:"),),
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
        "an agent that takes every speech session",
        "fairlead_speech.session_slots",
        (("if self._taken[agent] >= self._each:", "if False:"),),
        f"{_SESSIONS}::test_one_agent_takes_its_share_of_the_speech_sessions_and_others_get_theirs",
        "At index 2 diff: 101 != 429",
    ),
    Guard(
        "sockets without a setup that take the slots of speech sessions",
        "fairlead_speech.gemini.entrance",
        (("slot.wait()", "slot.begin()"), ("return\n        slot.begin()", "return")),
        f"{_SESSIONS}::test_sockets_without_a_setup_take_no_slot_of_a_session_and_no_more_than_their_share",
        "503",
    ),
    Guard(
        "a request to a model whose hundred thousand items hold everybody up",
        "fairlead_llm.llm_endpoint",
        (("if too_many_items(body):", "if False:"),),
        "tests/component/llm/test_many_items.py::"
        "test_a_request_with_more_items_than_a_conversation_has_is_refused_in_the_form_of_its_api",
        "assert",
    ),
)
