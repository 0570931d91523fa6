"""Guards of the gateway's own tokens and of the sessions behind them: see `guards`."""

from __future__ import annotations

from product_guard import AT, GATEWAY, Guard

_SESSIONS = "fairlead_authorization.sessions"
_DOORS = f"{AT}/test_resources_of_tokens.py"
_PATHS = "tests/unit/gateway/identity/test_token_resource.py::test_a_credential_is_not_valid_elsewhere"
_TOKENS = "tests/unit/gateway/identity/test_own_tokens.py"
_STATES = "tests/unit/authorization/sessions/test_sessions.py"
_REFRESHES = "tests/unit/authorization/sessions/test_refreshes.py"

OWN_TOKENS = (
    Guard(
        "a token for one server at the endpoint of all",
        f"{GATEWAY}.endpoint.mcp_endpoint",
        (("if identity.resource and (refusal :=", "if identity.kind is None and (refusal :="),),
        f"{_DOORS}::test_a_token_for_a_server_opens_the_endpoint_of_that_server_alone",
        "('/mcp', 200)",
    ),
    Guard(
        "a token for one server at a route",
        "fairlead_web.guard",
        (("if path_refusal is not None:", "if False:"),),
        f"{_DOORS}::test_no_route_is_opened_by_a_token_for_a_server",
        "== 401",
    ),
    Guard(
        "a token for one server at a server whose name begins alike",
        f"{GATEWAY}.identity.request_authentication",
        (("if is_at(path, identity.resource)", "if path.startswith(identity.resource)"),),
        _PATHS,
        "assert None is not None",
    ),
    Guard(
        "a token for one server at a path that leads elsewhere",
        f"{GATEWAY}.identity.request_authentication",
        ((" and _NO_NAMES.isdisjoint(segments)", ""),),
        _PATHS,
        "assert None is not None",
    ),
    Guard(
        "a key that outlives the sign-in of the program that made it",
        f"{GATEWAY}.identity.made_keys",
        (("identity.is_created_key or identity.resource or identity.issued_here", "identity.is_created_key"),),
        f"{_DOORS}::test_a_token_of_the_gateway_makes_no_key_which_would_outlive_the_sign_in",
        "assert 201 == 403",
    ),
    Guard(
        "a token for a gateway whose name begins alike",
        f"{GATEWAY}.identity.own_tokens",
        ((" or PLAIN_PATH.fullmatch(path) is None", ""),),
        f"{_TOKENS}::test_a_token_with_other_claims_is_refused",
        "assert False",
    ),
    Guard(
        "an ID token or other JWT as an access token",
        f"{GATEWAY}.identity.own_tokens",
        ((' or header.get("typ") != JWT_TYPE', ""),),
        f"{_TOKENS}::test_a_token_of_another_type_is_refused",
        "assert False",
    ),
    Guard(
        "a token of a session that has ended",
        f"{GATEWAY}.identity.own_tokens",
        (("if session in self._ended_sessions or", "if False or"),),
        f"{_TOKENS}::test_tokens_of_an_ended_session_are_refused_at_once_at_every_replica",
        "assert False",
    ),
    Guard(
        "a token of a session that ended before this replica started",
        f"{_SESSIONS}.ended_sessions",
        (("self._end(key.server.removeprefix(session_ends.PREFIX))", "pass"),),
        f"{_TOKENS}::test_a_replica_that_starts_rejects_tokens_of_sessions_that_ended_before",
        "condition",
    ),
    Guard(
        "a token of an ended session that was forgotten for many others",
        f"{GATEWAY}.identity.own_tokens",
        ((" or (session and issued_at <= self._issued_after)", ""),),
        f"{_TOKENS}::test_no_session_of_more_than_are_remembered_comes_back_to_life",
        "assert Identity",
    ),
    Guard(
        "a token of the gateway, at the authorization server of a server",
        f"{GATEWAY}.identity.request_authentication",
        ((" or identity.issued_here", ""),),
        f"{_TOKENS}::test_tokens_of_the_gateway_are_not_kept_to_be_exchanged_elsewhere",
        "is None",
    ),
    Guard(
        "a code that is used twice",
        f"{_SESSIONS}.stored_sessions",
        (('if session.state == "code" and not has_ended(stored.grant, now):', "if not has_ended(stored.grant, now):"),),
        f"{_STATES}::test_a_code_that_is_used_twice_ends_the_session",
        "DID NOT RAISE",
    ),
    Guard(
        "a code of another client",
        f"{_SESSIONS}.stored_sessions",
        (('if session.state == "code" and session.client_id != client_id:', "if False:"),),
        f"{_STATES}::test_a_code_is_of_no_use_to_another_client_and_stays_good",
        "DID NOT RAISE",
    ),
    Guard(
        "a refresh token that is replayed",
        f"{_SESSIONS}.session_record",
        (('return "replayed"', 'return "superseded"'),),
        f"{_REFRESHES}::test_a_replay_after_the_grace_window_ends_the_family",
        "DID NOT RAISE",
    ),
    Guard(
        "a refresh token of another client",
        f"{_SESSIONS}.stored_sessions",
        (("if session.client_id != client_id:\n                raise", "if False:\n                raise"),),
        f"{_REFRESHES}::test_another_client_cannot_refresh",
        "DID NOT RAISE",
    ),
    Guard(
        "two refreshes that race at the provider",
        f"{_SESSIONS}.renewals",
        (("if stored.grant.renewing_until and abs", "if False and abs"),),
        f"{_REFRESHES}::test_two_replicas_do_not_ask_the_provider_at_once",
        "SessionRefused",
    ),
    Guard(
        "another person in the answer of the provider",
        f"{_SESSIONS}.session_record",
        (("if (person.issuer, person.subject) != (grant.issuer, session_of(grant).subject):", "if False:"),),
        f"{_REFRESHES}::test_another_person_in_the_answer_of_the_provider_ends_the_session",
        "DID NOT RAISE",
    ),
    Guard(
        "a consent to a client that has changed since",
        f"{_SESSIONS}.consents",
        (("and key == _consent_key(key.person, consent, client.digest)", ""),),
        f"{_STATES}::test_a_person_consents_once_until_the_client_changes",
        "assert not True",
    ),
    Guard(
        "a consent for one server, used for all",
        f"{_SESSIONS}.consents",
        (("and is_at(session.access.resource, consent.resource)", ""),),
        f"{_STATES}::test_a_consent_covers_host_scopes_and_resource",
        "assert True is False",
    ),
    Guard(
        "sign-ins that a page elsewhere begins, and that end sessions",
        f"{_SESSIONS}.stored_sessions",
        (('(session_of(each[1]).state == "active", max', "(True, max"),),
        f"{_STATES}::test_sign_ins_without_consent_do_not_end_sessions",
        "assert []",
    ),
    Guard(
        "a provider's token by the sign-in of another person",
        f"{_SESSIONS}.subject_tokens",
        (
            (
                "        answer = self._answers.get(key)\n",
                "        answer = next((each for (_, of), each in self._answers.items() if of == key[1]), None)\n",
            ),
        ),
        "tests/unit/authorization/sessions/test_subject_tokens.py::test_session_of_another_person_gives_no_token",
        "DID NOT RAISE",
    ),
)
