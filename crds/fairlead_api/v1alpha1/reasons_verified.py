"""Reasons of `Verified`, with meaning and remedy: how a conversation with a server failed.

A part of the table in `reasons`, which is the one to import. Pure.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.causes import Cause, CauseExplanation

VERIFIED: Final = {
    Cause.VERIFIED: CauseExplanation("True", "The server answered tools/list; its answer is the catalog."),
    Cause.VERIFIED_IN_PART: CauseExplanation(
        "True",
        "The server answered, and more than one thing is wrong with what it lists; what is right is offered.",
        "Update the server; the page of reasons has advice on each.",
    ),
    Cause.DUPLICATE_NAMES: CauseExplanation(
        "True",
        "The server lists a name more than once. The first definition is offered, the others are left out.",
        "Give each a name of its own in the server: a call could not tell them apart.",
    ),
    Cause.INVALID_NAMES: CauseExplanation(
        "True",
        "Names are empty, too long (over 256 characters, URIs over 2,048) or hold control characters or characters "
        "that are not seen. These definitions are left out.",
        "Rename them in the server.",
    ),
    Cause.UNUSUAL_NAMES: CauseExplanation(
        "True",
        "Names do not follow the rule of MCP (1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'). They are offered as they "
        "are; the formats of model providers get a name that they take.",
        "Nothing, unless a client refuses them: then rename them in the server.",
    ),
    Cause.INVALID_SCHEMAS: CauseExplanation(
        "True",
        'Tools have no inputSchema, or one that is not an object with "type": "object", as MCP requires, or an '
        "x-mcp-header in it that breaks the rules of MCP 2026-07-28. They are left out: clients refuse them, or even "
        "the whole list for one of them, and a model would have to guess the arguments.",
        'Give each tool an inputSchema in the server; {"type": "object"} for one without arguments.',
    ),
    Cause.INVALID_DEFINITIONS: CauseExplanation(
        "True",
        "Definitions are not objects in UTF-8, members of them have another type than MCP gives them, or they are "
        "nested too deeply. They are left out: clients refuse the whole list for one of them.",
        "Correct these members in the server.",
    ),
    Cause.MENDED_DEFINITIONS: CauseExplanation(
        "True",
        "Members of definitions are null, an empty list where MCP has an object, or an outputSchema that older "
        "clients cannot take. Clients get the form that their revision of MCP has, as they refuse the whole list "
        "otherwise; the catalog, hashes and pins keep what the server wrote.",
        "No action is needed; correct these members in the server to have it say no more.",
    ),
    Cause.DEFINITIONS_TOO_LARGE: CauseExplanation(
        "True",
        "Definitions are larger than 256 KiB, which no model's context can hold. They are left out.",
        "Shorten their descriptions and schemas in the server.",
    ),
    Cause.LISTING_INCOMPLETE: CauseExplanation(
        "True",
        "The tools are listed, but prompts, resources or resource templates, which the server declares, are not.",
        "Have the server answer that listing, or not declare the capability.",
    ),
    Cause.MENDED_ANSWERS: CauseExplanation(
        "True",
        "The server answered in a form that is not MCP's and was taken for what it means; the message has each.",
        "Nothing, if all its tools are there; else update the server, or correct what the message names.",
    ),
    Cause.PENDING: CauseExplanation(
        "Unknown", "It has not been asked yet: what comes before is not done.", "Look at the other conditions."
    ),
    Cause.NOT_DISCOVERED: CauseExplanation("Unknown", "It is being asked for the first time.", "Wait."),
    Cause.UNREACHABLE: CauseExplanation(
        "False", "Its address cannot be reached.", "Check the address, the network and its policies."
    ),
    Cause.ADDRESS_NOT_ALLOWED: CauseExplanation(
        "False",
        "The server's url leads to where servers of this installation may not be: this machine, link-local addresses, "
        "the API server, or a Service of another namespace. Nothing is sent there.",
        "Use an address that is meant for it; or have the installation allow it, in servers.allowedUrls of the chart.",
    ),
    Cause.INVALID_URL: CauseExplanation("False", "Its address is not one that can be dialled.", "Correct spec.url."),
    Cause.INVALID_HEADER: CauseExplanation(
        "False",
        "A header for it holds characters that HTTP does not allow, so nothing was sent.",
        "Correct spec.remote.hostHeader or spec.image.hostHeader, or the credential in the Secret behind spec.auth.",
    ),
    Cause.CONNECTION_REFUSED: CauseExplanation(
        "False",
        "Nothing listens at its address and port.",
        "Check spec.image.port or spec.url, and that the server listens on all interfaces, not on localhost only.",
    ),
    Cause.UNKNOWN_HOST: CauseExplanation(
        "False",
        "Its host name does not resolve.",
        "Check the host in spec.url, as seen from inside of the cluster; that of an image or package is known to DNS "
        "once a pod is ready.",
    ),
    Cause.CONNECT_TIMEOUT: CauseExplanation(
        "False", "No connection came about in time.", "Check firewalls and network policies on the way."
    ),
    Cause.TLS_FAILED: CauseExplanation(
        "False",
        "Its certificate could not be verified, or TLS failed otherwise.",
        "Set spec.remote.caBundle for an authority of your own; check the host name and the dates of the certificate.",
    ),
    Cause.CONNECTION_LOST: CauseExplanation(
        "False", "The connection went away before an answer came.", "Read the server's log: it may have ended."
    ),
    Cause.CLOSED_MID_ANSWER: CauseExplanation(
        "False",
        "The connection went away in the middle of an answer.",
        "Read the server's log: it may have ended, or a proxy on the way may cut answers off.",
    ),
    Cause.PROCESS_EXITED: CauseExplanation(
        "False", "Its process ended before an answer came.", "Read its log, and its last words where they are given."
    ),
    Cause.CLOSED: CauseExplanation(
        "False", "The connection was closed by Fairlead itself, while stopping.", "Nothing."
    ),
    Cause.TIMEOUT: CauseExplanation(
        "False",
        "It took the request and did not answer in time.",
        "Read the server's log: it may hang. One that is slow on purpose gets more time by "
        "operator.settings.discoveryTimeout of the chart.",
    ),
    Cause.QUEUE_TIMEOUT: CauseExplanation(
        "False", "No connection to it came free in time.", "It is busy: raise its replicas or spec.limits.concurrency."
    ),
    Cause.TOO_MANY_PROCESSES: CauseExplanation(
        "False",
        "As many processes of the server run in its pod as may, one for each connection.",
        "Raise spec.limits.processes and the memory of its pods, or spec.replicas.",
    ),
    Cause.POOL_FULL: CauseExplanation(
        "False",
        "Too many requests wait for a connection to it already.",
        "It is busy or hangs: raise its replicas, or read its log.",
    ),
    Cause.TRANSPORT_ERROR: CauseExplanation(
        "False",
        "The network failed in a way without a name of its own; the message has it.",
        "Check the way to the server and what stands on it.",
    ),
    Cause.ANSWER_TOO_LARGE: CauseExplanation(
        "False",
        "Its answer was larger than the bound and was not read to its end.",
        "Offer fewer or smaller definitions.",
    ),
    Cause.HEADERS_TOO_LARGE: CauseExplanation(
        "False", "Its answer's headers were larger than the bound.", "Check what stands at that address."
    ),
    Cause.BAD_HTTP: CauseExplanation(
        "False",
        "What answered does not speak HTTP/1.1.",
        "Check port and transport; a server on stdio needs transport: stdio.",
    ),
    Cause.NOT_MCP: CauseExplanation(
        "False",
        "What answered is not an MCP server; the message has the start of its answer.",
        "Check spec.image.path or the path in spec.url, and transport.",
    ),
    Cause.HTML_INSTEAD_OF_MCP: CauseExplanation(
        "False",
        "A web page came instead of an MCP answer.",
        "Check spec.image.path or the path in spec.url: often /mcp. A login page means that a proxy stands before it.",
    ),
    Cause.EMPTY_ANSWER: CauseExplanation("False", "The answer was empty.", "Check spec.image.path and transport."),
    Cause.WRONG_ANSWER_ID: CauseExplanation(
        "False", "The answer belongs to another request.", "The server is at fault: update it."
    ),
    Cause.BAD_JSON: CauseExplanation(
        "False",
        "The answer is not valid JSON.",
        "The server is at fault: update it, or read its log. On stdio, nothing but MCP may go to standard output.",
    ),
    Cause.TRUNCATED_JSON: CauseExplanation(
        "False",
        "The answer's JSON ends too early.",
        "Read the server's log: it or a proxy on the way cuts answers off.",
    ),
    Cause.PROTOCOL_ERROR: CauseExplanation(
        "False", "It answers, but not by the protocol; the message says what was seen.", "Update the server."
    ),
    Cause.UNSUPPORTED_VERSION: CauseExplanation(
        "False", "It speaks no protocol revision that Fairlead speaks.", "Update the server."
    ),
    Cause.BAD_LISTING: CauseExplanation("False", "Its listing does not follow the protocol.", "Update the server."),
    Cause.TOO_MANY_PAGES: CauseExplanation(
        "False", "Its listing has more pages than the bound.", "Offer fewer tools, or larger pages."
    ),
    Cause.TOO_MANY_ITEMS: CauseExplanation(
        "False", "It lists more definitions than the bound.", "Offer fewer tools, or split the server."
    ),
    Cause.LISTING_TOO_LARGE: CauseExplanation(
        "False", "Its definitions are larger than the bound, together.", "Offer fewer or smaller definitions."
    ),
    Cause.UNAUTHORIZED: CauseExplanation(
        "False",
        "It wants a credential, or refuses the one it got (HTTP 401).",
        "Set spec.auth, or renew the value in its Secret.",
    ),
    Cause.FORBIDDEN: CauseExplanation(
        "False",
        "It knows the credential and refuses it (HTTP 403).",
        "Give the credential the rights it needs; or set spec.remote.hostHeader or "
        "spec.image.hostHeader, if the server refuses the Host or Origin.",
    ),
    Cause.NOT_FOUND: CauseExplanation(
        "False", "Nothing is at that path (HTTP 404).", "Check spec.image.path or the path in spec.url: often /mcp."
    ),
    Cause.METHOD_NOT_ALLOWED: CauseExplanation(
        "False",
        "The path takes no POST (HTTP 405).",
        "Check spec.image.path and transport: a server of the older kind needs transport: sse.",
    ),
    Cause.NOT_ACCEPTABLE: CauseExplanation(
        "False", "It refuses the content types that MCP requires (HTTP 406).", "Check spec.image.path and transport."
    ),
    Cause.REQUEST_TOO_LARGE: CauseExplanation(
        "False", "It refuses the request as too large (HTTP 413).", "Check the limits of a proxy on the way."
    ),
    Cause.UNSUPPORTED_MEDIA_TYPE: CauseExplanation(
        "False", "It refuses JSON (HTTP 415).", "Check spec.image.path and transport."
    ),
    Cause.MISDIRECTED_REQUEST: CauseExplanation(
        "False",
        "It does not answer to this host name (HTTP 421).",
        "Set spec.remote.hostHeader or spec.image.hostHeader to a name that it answers to, such as localhost.",
    ),
    Cause.TOO_MANY_REQUESTS: CauseExplanation(
        "False", "It asks for fewer requests (HTTP 429).", "Raise its limits, or set spec.limits.callsPerMinute."
    ),
    Cause.LOOP_DETECTED: CauseExplanation(
        "False",
        "Its address leads back to the gateway that would call it, or through too many gateways (HTTP 508).",
        "Point spec.url at the server itself, or delete the McpServer.",
    ),
    Cause.REDIRECTED: CauseExplanation(
        "False",
        "It points to another address (HTTP 3xx). Fairlead follows no more than a slash, as a credential might go "
        "astray.",
        "Put the final address into spec.url.",
    ),
    Cause.SERVER_ERROR: CauseExplanation("False", "It failed (HTTP 5xx).", "Read the server's log."),
    Cause.HTTP_REFUSED: CauseExplanation(
        "False", "It refused with an HTTP status that the message names.", "Read the server's log."
    ),
    Cause.RPC_ERROR: CauseExplanation(
        "False", "It answered tools/list with a JSON-RPC error.", "Read the server's log."
    ),
    Cause.MCP_ERROR: CauseExplanation(
        "False", "Talking to it failed in a way without a name of its own.", "Read the operator's log."
    ),
}
