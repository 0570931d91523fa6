"""Guards of signing in at servers: who may open a link, and whose answer is taken. See `guards`."""

from __future__ import annotations

from product_guard import AT, GATEWAY, Guard

_ATTACKS = f"{AT}/test_attacks_on_consents.py"
_PAGES = "fairlead_web.sign_in_pages"

CONSENTS = (
    Guard(
        "an account of one's own for the calls of somebody else, who opens one's link",
        "fairlead_console.consent",
        (("        if pending.person != person_of(identity):\n", "        if False:\n"),),
        f"{_ATTACKS}::test_link_of_somebody_else_is_refused_and_both_persons_are_named",
        "200 == 403",
    ),
    Guard(
        "the cookie of one's own sign-in at the link of somebody else",
        f"{GATEWAY}.sign_in.pending",
        (
            (
                "return browser is not None and browser.ticket.nonce == pending.ticket.nonce",
                "return browser is not None",
            ),
        ),
        f"{_ATTACKS}::test_a_cookie_of_one_sign_in_opens_no_other",
        "assert",
    ),
    Guard(
        "a link that is used twice",
        f"{GATEWAY}.sign_in.pending",
        (("        self._mark_used(pending.ticket.nonce, pending.ticket.expires_at)\n", ""),),
        f"{_ATTACKS}::test_a_link_is_used_once",
        "200 == 404",
    ),
    Guard(
        "an answer to a sign-in at one server, for another (mix-up)",
        f"{GATEWAY}.sign_in.sign_ins",
        (
            (
                "        return sign_in if path == self.site.callback_path(",
                "        return sign_in if path or self.site.callback_path(",
            ),
        ),
        f"{_ATTACKS}::test_an_answer_for_one_server_is_not_taken_at_the_address_of_another",
        "200 == 403",
    ),
    Guard(
        "an answer of another authorization server, at a port that takes those of both (mix-up)",
        f"{GATEWAY}.sign_in.sign_ins",
        (("            self._check_port(pending.server, consent, authorization, answer)\n", ""),),
        f"{_ATTACKS}::test_a_port_of_two_issuers_takes_no_answer_that_does_not_name_its_own",
        "200 == 400",
    ),
    Guard(
        "links of one person that push out the sign-ins of others",
        f"{GATEWAY}.sign_in.pending",
        (("        self._make_room(ticket.person)\n", ""),),
        "tests/unit/gateway/sign_in/test_pending_sign_ins.py::"
        "test_links_of_one_person_from_elsewhere_drop_nobody_elses",
        "4096 ==",
    ),
    Guard(
        "a sign-in that a page of another site begins",
        _PAGES,
        (("        if not (_is_own_form(request) and hmac.", "        if not (True and hmac."),),
        f"{_ATTACKS}::test_a_form_of_another_page_begins_nothing",
        "200 == 403",
    ),
    Guard(
        "a sign-in that a form without the page's token begins",
        _PAGES,
        (("hmac.compare_digest(token.encode(), pending.form_token(cookie).encode())", "True"),),
        f"{_ATTACKS}::test_a_form_without_the_token_of_its_page_begins_nothing",
        "200 == 403",
    ),
    Guard(
        "a page of the sign-in in a frame",
        "fairlead_web.sign_in_html",
        (("    \"base-uri 'none'; frame-ancestors 'none'\",\n", "    \"base-uri 'none'\",\n"),),
        f"{_ATTACKS}::test_no_page_can_be_framed_or_run_a_script",
        "frame-ancestors",
    ),
    Guard(
        "the page of a laptop, through a proxy",
        _PAGES,
        (
            (
                "        if self._site.is_local and not (is_local(",
                "        if self._site.is_local and not (True or is_local(",
            ),
        ),
        f"{_ATTACKS}::test_the_page_of_a_laptop_is_for_browsers_of_this_machine",
        "200 == 403",
    ),
    Guard(
        "a page elsewhere that a parameter leads the browser to",
        _PAGES,
        (
            (
                '            address = f"{self._site.base_url()}{CALLBACK}?',
                '            address = request.query_params.get("next") or f"{self._site.base_url()}{CALLBACK}?',
            ),
        ),
        f"{_ATTACKS}::test_no_parameter_leads_the_browser_to_another_host",
        "evil.example",
    ),
    Guard(
        "the accounts of a laptop's owner, through a proxy or tunnel",
        f"{GATEWAY}.core.request",
        (("    return any(name in headers for name in FORWARDED)\n", "    return False\n"),),
        f"{_ATTACKS}::test_a_request_that_a_proxy_forwards_is_not_the_owners",
        "assert",
    ),
    Guard(
        "the accounts of a laptop's owner, from another user of the laptop",
        f"{GATEWAY}.identity.peer_owner",
        (("    return owner is None or owner in (0, os.getuid())\n", "    return True\n"),),
        f"{_ATTACKS}::test_another_user_of_the_machine_is_not_its_owner",
        "assert",
    ),
    Guard(
        "a request to a laptop that counts as root's, as its client has closed the connection",
        f"{GATEWAY}.identity.peer_owner",
        (("    return uid if inode else NOBODY\n", "    return uid\n"),),
        "tests/unit/gateway/identity/test_peer_owner.py::test_a_connection_whose_process_has_gone_is_nobodys",
        "assert",
    ),
    Guard(
        "access to an account of another provider, which the person is not told of",
        _PAGES,
        ((" if server_host != issuer else ", " if False else "),),
        f"{_ATTACKS}::test_the_page_says_where_calls_go_and_whose_access_they_get",
        "assert",
    ),
    Guard(
        "the titles of the files of who signed in first, for everybody",
        "fairlead_operator.discovery.first_grant",
        (("if state.wants_sign_in else listing", "if False else listing"),),
        "tests/unit/operator/test_first_grant.py::test_only_tools_are_published_of_what_a_person_can_see",
        "assert",
    ),
    Guard(
        "the grant of another machine's user, at a gateway that knows nobody",
        "fairlead_app.shared_parts",
        ((" == LOCAL_ENVIRONMENT and is_loopback(listening.address)", " == LOCAL_ENVIRONMENT"),),
        f"{AT}/test_sign_in.py::test_a_gateway_that_other_machines_reach_has_no_persons_without_authentication",
        "assert",
    ),
)
