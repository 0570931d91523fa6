"""Guards that keep what is found by an id or by its content from other conversations: see `guards`."""

from __future__ import annotations

from guards_of_results import ACCOUNT, OWN_SESSIONS
from product_guard import AT, GATEWAY, Guard

_IDS = f"{AT}/test_ids_of_others.py"
_PROVIDERS = "tests/component/llm/test_ids_of_providers.py"

IDS = (
    Guard(
        "an account that the gateway keeps for itself, named as a session",
        f"{GATEWAY}.calls.results.context_recorder",
        (OWN_SESSIONS,),
        f"{_IDS}::test_stored_responses_and_turns_are_not_sessions_of_v1_context",
        "KeyError: 'entries'",
    ),
    Guard(
        "a model's answer to another principal, by its id",
        f"{GATEWAY}.calls.results.context_recorder",
        (ACCOUNT,),
        "tests/component/llm/test_stored_responses.py::test_an_answer_is_nobody_elses",
        "[404, 404, 404]",
    ),
    Guard(
        "an item of a model's answer to another principal, by a reference",
        f"{GATEWAY}.calls.results.context_recorder",
        (ACCOUNT,),
        "tests/component/llm/test_references_to_items.py::test_an_item_of_another_principal_cannot_be_referenced",
        "[200, 200]",
    ),
    Guard(
        "a call that was not approved, by the approval of another one under its id",
        "fairlead_formats.providers.openai_responses.mcp_tools",
        (('f"{APPROVAL_ID}{nonce_of(response_id)}_{call_id}"', 'f"{APPROVAL_ID}{call_id}"'),),
        f"{_PROVIDERS}::test_an_approval_of_one_answer_runs_no_call_of_another",
        "assert not [{",
    ),
    Guard(
        "results that wait for a conversation of the same id elsewhere",
        "fairlead_llm.stored_responses.store",
        (("msgspec.json.encode((provider, caller_key, ident))", "ident.encode()"),),
        f"{_PROVIDERS}::test_results_that_wait_for_a_conversation_are_of_the_account_of_the_callers_key",
        "'42'",
    ),
    Guard(
        "results behind thoughts of Responses that somebody guessed",
        "fairlead_formats.providers.openai_responses.items",
        (('return f"{ident}{_MARK}{mark}"', "return ident"),),
        f"{_PROVIDERS}::test_thoughts_of_a_made_up_history_find_no_hidden_results",
        "'42'",
    ),
    Guard(
        "results behind thoughts of Messages that somebody guessed",
        "fairlead_formats.providers.anthropic.blocks",
        (
            (
                "return None if match is None or match[2] is None else CallKey(match[2], SIGNED_REASONING)",
                "return None if match is None else CallKey(signature[match.end() :], SIGNED_REASONING)",
            ),
        ),
        f"{_PROVIDERS}::test_signatures_of_a_made_up_history_find_no_hidden_results",
        "tool_result",
    ),
    Guard(
        "a handle of a speech session that nobody was given",
        f"{GATEWAY}.calls.sealed.seals",
        (('value if self.verifies(mark[1], owner, f"{source} {value}") else None', "value"),),
        "tests/unit/speech/test_handles.py::test_a_handle_that_nobody_signed_is_refused",
        "DID NOT RAISE",
    ),
    Guard(
        "a server's state that an anonymous caller guessed",
        f"{GATEWAY}.calls.sealed.request_state",
        (
            (
                "unmark(identity.owner, str(server), signed_state)",
                "unmark(identity.owner, str(server), signed_state) or signed_state",
            ),
        ),
        f"{_IDS}::test_an_anonymous_caller_goes_on_with_no_state_that_it_did_not_get",
        "KeyError: 'error'",
    ),
    Guard(
        "a state of one server, taken to another that has the same",
        f"{GATEWAY}.calls.sealed.seals",
        (("f'{source} {value}'", "value"), ('f"{source} {value}"', "value")),
        f"{_IDS}::test_a_state_of_one_server_leads_on_at_no_other",
        "KeyError: 'error'",
    ),
    Guard(
        "a call that is only repeated, by a state that has expired",
        f"{GATEWAY}.calls.sealed.repeat_states",
        ((" and self._clock() < int(match[1]):", ":"),),
        "tests/unit/gateway/calls/test_repeat_states.py::test_a_state_is_good_at_every_replica_until_it_expires",
        "DID NOT RAISE",
    ),
    Guard(
        "a call that is only repeated, by the state of another principal",
        f"{GATEWAY}.calls.sealed.repeat_states",
        (
            ("self._seal.mac(identity.owner, text)", "self._seal.mac('', text)"),
            ("verifies(match[3], identity.owner, text)", 'verifies(match[3], "", text)'),
        ),
        "tests/unit/gateway/calls/test_repeat_states.py::test_a_state_is_of_no_use_to_another_principal",
        "DID NOT RAISE",
    ),
    Guard(
        "a call with other arguments, by the state of one that is only repeated",
        f"{GATEWAY}.calls.sealed.repeat_states",
        (("{request.method} {digest} {target}", "{request.method} {target}"),),
        f"{AT}/test_url_questions.py::test_a_state_repeats_no_other_call",
        "KeyError: 'error'",
    ),
    Guard(
        "a call of another client, cancelled by a session id that both made up",
        f"{GATEWAY}.endpoint.session_claims",
        (
            ('request.method == "initialize" else SESSION_UNKNOWN', 'request.method == "initialize" else request'),
            ("if modern else SESSION_UNKNOWN", "if modern else message"),
        ),
        f"{_IDS}::test_an_anonymous_caller_cancels_nothing_by_a_session_id_that_it_made_up",
        "assert 202 == 404",
    ),
    Guard(
        "a question of another session, answered by its id",
        f"{GATEWAY}.calls.questions.server_requests",
        ((" or request.session != session", ""),),
        f"{_IDS}::test_a_question_is_answered_in_the_session_that_it_went_to_alone",
        "forged",
    ),
    Guard(
        "a cached result that a server made for another user",
        f"{GATEWAY}.calls.results.cache",
        (("caller_meta = _canonical_json(meta, _identifies_caller)", "caller_meta: bytes | None = _EMPTY"),),
        f"{_IDS}::test_a_cached_result_reaches_only_callers_with_equal_meta",
        "secret of ann",
    ),
    Guard(
        "progress of another call, by the token of one's own",
        f"{GATEWAY}.calls.translation.translate",
        (("if bytes(_decode_progress(message_params).token) != gateway_token:", "if False:"),),
        f"{AT}/test_progress.py::test_calls_with_one_token_hear_at_once_of_their_own_progress_and_of_no_other",
        "KeyError: 'result'",
    ),
    Guard(
        "a call that somebody else made, by its number",
        "fairlead_rest.ended_calls",
        (('return self._administers or (self._owner != "" and call.caller.owner == self._owner)', "return True"),),
        "tests/component/rest/test_recent_calls.py::test_callers_see_their_own_calls_and_administrators_all",
        "assert",
    ),
    Guard(
        "a made key of somebody else, revoked by its id",
        f"{GATEWAY}.identity.made_keys",
        (("key.id == ident and (of_anyone or _is_of(key, identity))", "key.id == ident"),),
        "tests/component/console/test_made_keys.py::test_keys_of_other_principals_are_for_administrators_alone",
        "[200, 200] == [404, 200]",
    ),
    Guard(
        "a sign-in on its way, by a cookie that was sealed for another purpose",
        "fairlead_gateway.identity.sealed_values",
        (
            ("msgspec.json.encode(content), purpose.encode())", 'msgspec.json.encode(content), b"")'),
            ("data[_NONCE_BYTES:], purpose.encode())", 'data[_NONCE_BYTES:], b"")'),
        ),
        "tests/component/console/test_oidc_attacks.py::"
        "test_a_cookie_sealed_by_another_key_or_for_another_purpose_is_refused",
        "assert",
    ),
)
