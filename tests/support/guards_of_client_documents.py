"""Guards on clients that bring their own description: documents at URLs, redirect URIs, registrations. See `guards`."""

from __future__ import annotations

from product_guard import Guard

_CLIENTS = "fairlead_authorization.clients"
_FETCHES = "tests/component/authorization/test_document_fetches.py"
_REDIRECTS = "tests/unit/authorization/test_redirect_uris.py"

CLIENT_DOCUMENTS = (
    Guard(
        "a client id that leads to an inner address",
        "fairlead_mcp.egress",
        (
            (
                "allowed_addresses = [address for address in addresses if is_public_address(address[0])]",
                "allowed_addresses = addresses",
            ),
        ),
        f"{_FETCHES}::test_a_name_that_leads_inside_is_not_fetched_even_if_it_led_outside_before",
        "DID NOT RAISE",
    ),
    Guard(
        "an address of special use that counts as one of the internet",
        "fairlead_mcp.egress",
        (("    if address.is_multicast or any(", "    if False and any("),),
        "tests/unit/mcp/test_egress.py::test_an_address_of_special_use_is_never_public",
        "assert not True",
    ),
    Guard(
        "a client id at a host that nobody allowed",
        f"{_CLIENTS}.client_ids",
        (("    if address.authority in hosts or", "    if True or"),),
        f"{_FETCHES}::test_a_host_that_is_not_allowed_is_not_even_looked_up",
        "DID NOT RAISE",
    ),
    Guard(
        "a client id with a part that other software reads otherwise",
        f"{_CLIENTS}.client_ids",
        (("    if match is None or dots or", "    if match is None or"),),
        "tests/unit/authorization/test_client_ids.py",
        "DID NOT RAISE",
    ),
    Guard(
        "a document of a client that redirects elsewhere",
        f"{_CLIENTS}.fetching",
        (("    if 300 <= status < 400:\n", "    if False:\n"), ("    if status != 200:\n", "    if False:\n")),
        f"{_FETCHES}::test_another_answer_than_a_small_json_document_is_not_taken",
        "DID NOT RAISE",
    ),
    Guard(
        "a document of a client without end",
        f"{_CLIENTS}.fetching",
        (("FETCH_SECONDS, max_bytes=max_bytes)", "FETCH_SECONDS, max_bytes=1 << 30)"),),
        f"{_FETCHES}::test_another_answer_than_a_small_json_document_is_not_taken",
        "DID NOT RAISE",
    ),
    Guard(
        "a document that says it is another client's",
        f"{_CLIENTS}.documents",
        (("    if members.client_id != address.url:\n", "    if False:\n"),),
        "tests/unit/authorization/test_client_documents.py",
        "DID NOT RAISE",
    ),
    Guard(
        "a redirect URI that only begins like one of the client's",
        f"{_CLIENTS}.redirects",
        (("    if uri in registered_uris:\n", "    if any(uri.startswith(each) for each in registered_uris):\n"),),
        f"{_REDIRECTS}::test_web_and_private_redirect_uris_are_compared_as_text",
        "assert not True",
    ),
    Guard(
        "a redirect to another path of the person's machine",
        f"{_CLIENTS}.redirects",
        (('    return match[1], match[3] or "/"\n', '    return match[1], "/"\n'),),
        f"{_REDIRECTS}::test_all_but_the_port_of_a_loopback_address_is_compared_as_text",
        "assert not True",
    ),
    Guard(
        "a client that registers itself to get codes at a host of its own",
        f"{_CLIENTS}.registration",
        ((" if redirect_host(uri) in self._hosts)\n        if not uris:", ")\n        if not uris:"),),
        "tests/unit/authorization/test_client_registration.py",
        "DID NOT RAISE",
    ),
)
