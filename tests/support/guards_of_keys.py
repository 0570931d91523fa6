"""Guards of the keys that users enter for servers: whose a key is, where it goes, and where it is never told. See
`guards`.
"""

from __future__ import annotations

from product_guard import AT, GATEWAY, Guard

_KEYS = f"{AT}/test_entered_keys.py"
_ENTERED = "fairlead_mcp.oauth.entered_keys"
_PAGES = "fairlead_web.sign_in_pages"
_PER_CLIENT = f"{GATEWAY}.upstream.per_client"

KEYS = (
    Guard(
        "a key for the calls of another person",
        _ENTERED,
        (
            (
                "            stored = await self._store.read(GrantKey(person, server))\n",
                '            stored = await self._store.read(GrantKey(b"name:alice", server))\n',
            ),
        ),
        f"{_KEYS}::test_each_person_calls_with_the_own_key",
        "assert",
    ),
    Guard(
        "a key that is sent to another address of its server's name",
        _ENTERED,
        (("        if grant.server_address != address:\n", "        if False:\n"),),
        f"{_KEYS}::test_a_key_is_not_sent_to_another_address_or_a_new_server_of_the_name",
        "isError",
    ),
    Guard(
        "a key that a page of another site enters",
        _PAGES,
        (("        if not (_is_own_form(request) and hmac.", "        if not (True and hmac."),),
        f"{_KEYS}::test_a_form_of_another_page_enters_no_key",
        "200 == 403",
    ),
    Guard(
        "a key of an attacker for the calls of the person whose link is known",
        _PAGES,
        (
            (
                '        if not self._sign_ins.admits(pending, cookie):\n            return message_page("Another',
                '        if False:\n            return message_page("Another',
            ),
            ("hmac.compare_digest(token.encode(), pending.form_token(cookie).encode())", "True"),
        ),
        f"{_KEYS}::test_the_link_of_a_person_takes_no_key_of_another_browser",
        "200 == 403",
    ),
    Guard(
        "a header more, by a line break in a key",
        _ENTERED,
        (("    if _KEY.fullmatch(key) is None:\n", "    if False:\n"),),
        f"{_KEYS}::test_a_text_that_cannot_be_the_key_is_not_stored_and_not_repeated",
        "200 == 400",
    ),
    Guard(
        "a process with the key of another person",
        _PER_CLIENT,
        (
            (
                "        return session.person == request.person and session.authorization == request.authorization\n",
                "        return True\n",
            ),
        ),
        "tests/unit/gateway/test_per_client_sessions.py::test_no_request_reaches_a_process_of_another_person",
        "assert",
    ),
    Guard(
        "a process that goes on with a key that was deleted or replaced",
        _PER_CLIENT,
        (("            self._retire(session)\n\n    def gauges(", "            pass\n\n    def gauges("),),
        f"{_KEYS}::test_the_process_of_a_session_ends_with_its_key",
        "TimeoutError",
    ),
    Guard(
        "a key for a changed program, before its catalog is published",
        "fairlead_operator.server.stdio_gate",
        (('    [ "$FAIRLEAD_PROGRAM" = "$5" ] || {', "    true || {"),),
        f"{_KEYS}::test_a_key_reaches_no_other_program_in_a_pod_whose_catalog_is_not_published_yet",
        "program has changed",
    ),
    Guard(
        "a key that its process prints to its log",
        "fairlead_mcp.child",
        (("        if spec.secret:\n", "        if False:\n"),),
        f"{_KEYS}::test_no_key_is_in_metrics_traces_calls_documents_or_logs",
        "process: key of a process",
    ),
)
