"""Guards on where requests to servers go: addresses, redirects and what an SSE server names. See `guards`."""

from __future__ import annotations

from product_guard import Guard

EGRESS = (
    Guard(
        "an address that is none for servers",
        "fairlead_mcp.egress",
        (
            (
                "            if denial and not allowed_addresses:\n",
                "            allowed_addresses = resolved\n            if False:\n",
            ),
        ),
        "tests/unit/mcp/test_egress.py::test_a_name_that_resolves_to_where_no_server_may_be_is_refused",
        "assert",
    ),
    Guard(
        "a Service of another team",
        "fairlead_mcp.egress",
        (("if owner is not None and owner != namespace:", "if False:"),),
        "tests/unit/mcp/test_egress.py",
        "a Service of namespace",
    ),
    Guard(
        "an alias for a Service of another team",
        "fairlead_mcp.egress",
        (("if not is_listed and isinstance(resolved, Resolved) and resolved.canonical:", "if False:"),),
        "tests/unit/mcp/test_egress.py::test_an_alias_counts_as_what_it_stands_for",
        "10.98.0.7",
    ),
    Guard(
        "a Service of another team, by its address",
        "fairlead_mcp.egress",
        (("        return another\n", '        return ""\n'),),
        "tests/unit/mcp/test_egress.py::test_a_service_of_another_namespace_is_denied_by_its_address_too",
        "198.51.100.7",
    ),
    Guard(
        "a name that changes its address once it was looked at",
        "fairlead_mcp.egress",
        (("            return allowed_addresses\n", "            return await resolve(host, port)\n"),),
        "tests/unit/mcp/test_egress.py::test_the_address_that_was_looked_at_is_the_one_that_is_connected_to",
        "[('127.0.0.1', 9)] ==",
    ),
    Guard(
        "the API server by another address",
        "fairlead_mcp.egress",
        ((".union(self.api_server)", " & set() | set(self.api_server)"),),
        "tests/unit/mcp/test_egress.py::test_an_alias_counts_as_what_it_stands_for",
        "10.0.0.2",
    ),
    Guard(
        "an IPv4 address inside of an IPv6 one",
        "fairlead_mcp.egress",
        (("for each in (address, *_embedded_addresses(address)):", "for each in (address,):"),),
        "tests/unit/mcp/test_egress.py::test_a_name_that_resolves_to_where_no_server_may_be_is_refused",
        "assert",
    ),
    Guard(
        "the kubelet of a node",
        "fairlead_mcp.egress",
        (('reason = _NODE_PORTS.get(port, "")', 'reason = ""'),),
        "tests/unit/mcp/test_egress.py::test_ports_of_kubernetes_nodes_are_refused_at_any_address",
        "assert",
    ),
    Guard(
        "an SSE server that wants a credential posted elsewhere",
        "fairlead_mcp.http.events",
        (
            (
                "raise NotMcp(f\"the server's endpoint event names an address of another origin",
                "NotMcp(f\"the server's endpoint event names an address of another origin",
            ),
        ),
        "tests/component/mcp/test_links.py::test_a_credential_is_not_posted_to_another_origin",
        "another origin",
    ),
    Guard(
        "a redirect to another host, scheme or port that is a slash away",
        "fairlead_mcp.http.target",
        (("            if is_own:\n", "            if True:\n"),),
        "tests/component/mcp/test_urls_that_lead_on.py::test_no_other_redirect_is_followed",
        "'/mcp/'",
    ),
    Guard(
        "a redirect to another path of the same server",
        "fairlead_mcp.http.target",
        ((" != (other_path, query):", " == ():"),),
        "tests/component/mcp/test_urls_that_lead_on.py::test_no_other_redirect_is_followed",
        "'/mcp/'",
    ),
)
