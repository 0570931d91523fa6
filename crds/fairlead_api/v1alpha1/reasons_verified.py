"""Causes of the condition `Verified`, with meaning and remedy: how discovery of a server failed.

This is a part of the table in `reasons`, which is the module to import. This module has no I/O.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.causes import Cause, CauseExplanation

VERIFIED: Final = {
    Cause.VERIFIED: CauseExplanation("True", "The server answered tools/list; the catalog has the listed definitions."),
    Cause.VERIFIED_IN_PART: CauseExplanation(
        "True",
        "The server answered, and its lists have several faults; the correct definitions are offered.",
        "Update the server; the page of reasons has advice on each problem.",
    ),
    Cause.DUPLICATE_NAMES: CauseExplanation(
        "True",
        "The server lists a name more than once. The first definition is offered; the other definitions are left out.",
        "Give each definition its own name in the server: calls cannot distinguish definitions with equal names.",
    ),
    Cause.INVALID_NAMES: CauseExplanation(
        "True",
        "Names are empty, too long (over 256 characters, URIs over 2,048) or contain control characters or invisible "
        "characters. These definitions are left out.",
        "Rename them in the server.",
    ),
    Cause.UNUSUAL_NAMES: CauseExplanation(
        "True",
        "Names do not follow MCP's rule (1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'). They are offered unchanged; in "
        "the formats of model providers they are replaced by names that the provider accepts.",
        "Nothing, unless a client rejects them: then rename them in the server.",
    ),
    Cause.INVALID_SCHEMAS: CauseExplanation(
        "True",
        'Tools have no inputSchema, or their inputSchema is not an object with "type": "object", as MCP requires, '
        "or its "
        "x-mcp-header breaks the rules of MCP 2026-07-28. These tools are left out: clients reject them, or even the "
        "whole list, and a model would have to guess the arguments.",
        'Give each tool an inputSchema in the server; {"type": "object"} for a tool without arguments.',
    ),
    Cause.INVALID_DEFINITIONS: CauseExplanation(
        "True",
        "Definitions are not UTF-8 JSON objects, have members of another type than MCP's, or are nested too deeply. "
        "They are left out: clients reject the whole list because of one of them.",
        "Correct these members in the server.",
    ),
    Cause.MENDED_DEFINITIONS: CauseExplanation(
        "True",
        "Members of definitions are null, an empty list where MCP has an object, or an outputSchema that older clients "
        "reject. Clients receive the form of their revision of MCP, because they would otherwise reject the whole "
        "list; catalog, hashes and pins keep the server's original text.",
        "Nothing has to be done; correcting these members in the server ends this report.",
    ),
    Cause.INVALID_SHAPES: CauseExplanation(
        "True",
        "spec.tools gives tools a name, arguments or results that their definitions do not allow: a name that another "
        "tool has, a hidden argument that the server requires, a value of another type, or an argument that the tool "
        "does not have. These tools are left out: a value that is meant for every call must never be missing.",
        "Correct `as`, `arguments` and `result` of the tool in its entry of `tools`; the message says what is wrong.",
    ),
    Cause.DEFINITIONS_TOO_LARGE: CauseExplanation(
        "True",
        "Definitions are larger than 256 KiB, which no model's context can hold. They are left out.",
        "Shorten their descriptions and schemas in the server.",
    ),
    Cause.LISTING_INCOMPLETE: CauseExplanation(
        "True",
        "The tools are listed, but listing prompts, resources or resource templates failed, although the server "
        "declares them.",
        "Have the server answer that list request, or stop declaring the capability.",
    ),
    Cause.MENDED_ANSWERS: CauseExplanation(
        "True",
        "Responses of the server deviate from MCP in a way that could be corrected; the message names each deviation.",
        "If all tools of the server are listed, nothing is wrong; else update the server, or correct what the message "
        "names.",
    ),
    Cause.OPERATIONS_LEFT_OUT: CauseExplanation(
        "True",
        "Some operations of the OpenAPI document cannot become tools; the message names the first ones and why. The "
        "other operations are offered.",
        "Correct the document, or leave these operations out with openapi.exclude; fairlead openapi check lists them "
        "all.",
    ),
    Cause.DOCUMENT_UNUSABLE: CauseExplanation(
        "False",
        "The OpenAPI document of openapi is missing, is not one of OpenAPI 3.0 or 3.1, or takes too long or too much "
        "memory to compile. Tools of an earlier version of it stay listed.",
        "Correct the document or its place; fairlead openapi check tells what is wrong with it.",
    ),
    Cause.PENDING: CauseExplanation(
        "Unknown", "Discovery has not started: it waits for other conditions.", "Look at the other conditions."
    ),
    Cause.BEING_REPLACED: CauseExplanation(
        "Unknown",
        "The pods that still run are of an earlier spec, or have the token of an earlier installation, and do not "
        "answer; those that take their place are starting.",
        "Wait; without progress: PodsMissing.",
    ),
    Cause.NOT_DISCOVERED: CauseExplanation("Unknown", "The first discovery is running.", "Wait."),
    Cause.UNREACHABLE: CauseExplanation(
        "False", "The server's address cannot be reached.", "Check the address, the network and its policies."
    ),
    Cause.ADDRESS_NOT_ALLOWED: CauseExplanation(
        "False",
        "The server's url leads to an address that this installation does not allow: this machine, link-local "
        "addresses, the API server, or a Service of another namespace. Nothing is sent there.",
        "Use another address; or have the installation allow it, in servers.allowedUrls of the chart.",
    ),
    Cause.INVALID_URL: CauseExplanation(
        "False",
        "The server's URL is not a valid address, or is https where the server speaks http.",
        "Correct spec.url.",
    ),
    Cause.INVALID_HEADER: CauseExplanation(
        "False",
        "A request header contains characters that HTTP does not allow, so nothing was sent.",
        "Correct spec.remote.hostHeader or spec.image.hostHeader, or the credential in the Secret behind spec.auth.",
    ),
    Cause.CONNECTION_REFUSED: CauseExplanation(
        "False",
        "No process listens at the server's address and port.",
        "Check the port in spec.url or spec.image.port, and whether the server runs and listens on all interfaces, not "
        "only on localhost.",
    ),
    Cause.UNKNOWN_HOST: CauseExplanation(
        "False",
        "The server's host name does not resolve.",
        "Check the host in spec.url, as seen from inside the cluster. The name of an image's or package's Service "
        "resolves once a pod is ready.",
    ),
    Cause.CONNECT_TIMEOUT: CauseExplanation(
        "False", "Connecting to the server timed out.", "Check firewalls and network policies on the way."
    ),
    Cause.TLS_FAILED: CauseExplanation(
        "False",
        "The server's certificate could not be verified, or TLS failed for another reason.",
        "If you have your own certificate authority, set spec.remote.caBundle; check host name and dates of the "
        "certificate.",
    ),
    Cause.CONNECTION_LOST: CauseExplanation(
        "False", "The connection was lost before a response arrived.", "Read the server's log: it may have exited."
    ),
    Cause.CLOSED_MID_ANSWER: CauseExplanation(
        "False",
        "The connection was lost in the middle of a response.",
        "Read the server's log: it may have exited, or a proxy in between cuts responses off.",
    ),
    Cause.PROCESS_EXITED: CauseExplanation(
        "False", "The process exited before it responded.", "Read the server's log, or its last output in the message."
    ),
    Cause.CLOSED: CauseExplanation("False", "Fairlead closed the connection because it is stopping.", "Nothing."),
    Cause.TIMEOUT: CauseExplanation(
        "False",
        "The server accepted the request, but did not respond in time.",
        "Read the server's log: it may hang. If it is slow by design, raise operator.settings.discoveryTimeout in the "
        "chart.",
    ),
    Cause.QUEUE_TIMEOUT: CauseExplanation(
        "False", "No connection to the server became free in time.", "Raise spec.replicas or spec.limits.concurrency."
    ),
    Cause.TOO_MANY_PROCESSES: CauseExplanation(
        "False",
        "The server's pods run as many processes as they may, one for each connection.",
        "Raise spec.limits.processes and the memory of its pods, or spec.replicas.",
    ),
    Cause.POOL_FULL: CauseExplanation(
        "False",
        "Too many requests are waiting for a connection to the server already.",
        "The server is busy or hangs: raise spec.replicas, or read its log.",
    ),
    Cause.TRANSPORT_ERROR: CauseExplanation(
        "False",
        "The network failed in an unclassified way; the message has the error.",
        "Check the network and the proxies between Fairlead and the server.",
    ),
    Cause.ANSWER_TOO_LARGE: CauseExplanation(
        "False",
        "A response of the server is larger than the limit and was not read completely.",
        "Offer fewer or smaller definitions.",
    ),
    Cause.HEADERS_TOO_LARGE: CauseExplanation(
        "False", "The headers of a response are larger than the limit.", "Check which program listens at the address."
    ),
    Cause.BAD_HTTP: CauseExplanation(
        "False",
        "The response is not HTTP/1.1.",
        "Check port and transport; a server on stdio needs transport: stdio.",
    ),
    Cause.NOT_MCP: CauseExplanation(
        "False",
        "The response is not MCP; the message quotes its beginning.",
        "Check spec.image.path or the path in spec.url, and transport.",
    ),
    Cause.HTML_INSTEAD_OF_MCP: CauseExplanation(
        "False",
        "The response is a web page instead of MCP.",
        "Check spec.image.path or the path in spec.url: often /mcp. A login page means that a proxy requires a login.",
    ),
    Cause.EMPTY_ANSWER: CauseExplanation("False", "The response is empty.", "Check spec.image.path and transport."),
    Cause.WRONG_ANSWER_ID: CauseExplanation(
        "False", "The response has the id of another request.", "The server is at fault: update it."
    ),
    Cause.BAD_JSON: CauseExplanation(
        "False",
        "The response is not valid JSON.",
        "The server is at fault: update it, or read its log. On stdio, standard output may only contain MCP.",
    ),
    Cause.TRUNCATED_JSON: CauseExplanation(
        "False",
        "The JSON of the response is truncated.",
        "Read the server's log: the server, or a proxy in between, cuts responses off.",
    ),
    Cause.PROTOCOL_ERROR: CauseExplanation(
        "False", "A response violates the protocol; the message says how.", "Update the server."
    ),
    Cause.UNSUPPORTED_VERSION: CauseExplanation(
        "False", "The server supports no protocol revision that Fairlead supports.", "Update the server."
    ),
    Cause.BAD_LISTING: CauseExplanation("False", "A list of the server violates the protocol.", "Update the server."),
    Cause.TOO_MANY_PAGES: CauseExplanation(
        "False", "A list of the server has more pages than the limit.", "Offer fewer tools, or larger pages."
    ),
    Cause.TOO_MANY_ITEMS: CauseExplanation(
        "False", "The server lists more definitions than the limit.", "Offer fewer tools, or split the server."
    ),
    Cause.LISTING_TOO_LARGE: CauseExplanation(
        "False", "The server's definitions together are larger than the limit.", "Offer fewer or smaller definitions."
    ),
    Cause.UNAUTHORIZED: CauseExplanation(
        "False",
        "The server requires a credential, or rejects the credential that was sent (HTTP 401).",
        "Set spec.auth, or renew the value in its Secret.",
    ),
    Cause.FORBIDDEN: CauseExplanation(
        "False",
        "The server accepts the credential but denies access (HTTP 403).",
        "Give the credential the required rights; or set spec.remote.hostHeader or spec.image.hostHeader, if the "
        "server rejects the Host or Origin.",
    ),
    Cause.GRANT_FAILED: CauseExplanation(
        "False",
        "Fairlead gets no access token for the server: the issuer refuses it, or its metadata cannot be used. The "
        "message has the issuer's error.",
        "Correct the client, its Secret, scopes, audience or resource in spec.auth or spec.discovery.auth, or register "
        "the client's grant at the issuer.",
    ),
    Cause.LISTS_NEED_CREDENTIAL: CauseExplanation(
        "False",
        "The server refuses to list its tools without a credential. Calls are sent with the token of the person who "
        "calls (spec.auth.tokenExchange, userConsent or userKey), and for lists there is no user.",
        "Give Fairlead a credential for lists: spec.discovery.auth, with clientCredentials, bearer, header or, for "
        "userConsent and for userKey with a header, firstGrant.",
    ),
    Cause.SIGN_IN_REQUIRED: CauseExplanation(
        "False",
        "The server shows its tools only to people who have signed in or entered their key, and it has accepted nobody "
        "yet. Until then, it has one tool, sign_in, which answers with a link.",
        "Sign in, or enter your key: fairlead login SERVER, or call the tool sign_in. If one token or key is for "
        "everybody, set spec.auth.bearer instead, or spec.auth.header for a header other than Authorization.",
    ),
    Cause.ISSUER_UNREACHABLE: CauseExplanation(
        "False",
        "The authorization server in spec.auth or spec.discovery.auth does not answer, or answers with a server error, "
        "so there is no access token for the server.",
        "Look at the authorization server, and at firewalls and network policies on the way. It is asked again.",
    ),
    Cause.NOT_FOUND: CauseExplanation(
        "False", "The path does not exist (HTTP 404).", "Check spec.image.path or the path in spec.url: often /mcp."
    ),
    Cause.METHOD_NOT_ALLOWED: CauseExplanation(
        "False",
        "The path does not accept POST (HTTP 405).",
        "Check spec.image.path and transport: a server with HTTP+SSE needs transport: sse.",
    ),
    Cause.NOT_ACCEPTABLE: CauseExplanation(
        "False", "The server rejects MCP's content types (HTTP 406).", "Check spec.image.path and transport."
    ),
    Cause.REQUEST_TOO_LARGE: CauseExplanation(
        "False", "The server rejects the request as too large (HTTP 413).", "Check the limits of proxies in between."
    ),
    Cause.UNSUPPORTED_MEDIA_TYPE: CauseExplanation(
        "False", "The server rejects JSON (HTTP 415).", "Check spec.image.path and transport."
    ),
    Cause.MISDIRECTED_REQUEST: CauseExplanation(
        "False",
        "The server does not accept this host name (HTTP 421).",
        "Set spec.remote.hostHeader or spec.image.hostHeader to a name that the server accepts, such as localhost.",
    ),
    Cause.TOO_MANY_REQUESTS: CauseExplanation(
        "False",
        "The server limits the rate of requests (HTTP 429).",
        "Raise that limit, or lower spec.limits.callsPerMinute.",
    ),
    Cause.LOOP_DETECTED: CauseExplanation(
        "False",
        "The server's URL leads back to this gateway, or through too many gateways (HTTP 508).",
        "Point spec.url at the server itself, or delete the McpServer.",
    ),
    Cause.REDIRECTED: CauseExplanation(
        "False",
        "The server redirects to another address (HTTP 3xx). Fairlead only follows a redirect that adds or removes a "
        "slash, because other redirects might disclose the credential.",
        "Put the final address into spec.url.",
    ),
    Cause.SERVER_ERROR: CauseExplanation("False", "The server failed (HTTP 5xx).", "Read the server's log."),
    Cause.HTTP_REFUSED: CauseExplanation(
        "False",
        "The server responded with an HTTP error that the message names.",
        "Check the path in spec.url or spec.image.path, and read the server's log.",
    ),
    Cause.RPC_ERROR: CauseExplanation(
        "False", "The server answered tools/list with a JSON-RPC error.", "Read the server's log."
    ),
    Cause.MCP_ERROR: CauseExplanation(
        "False", "Discovery failed with an unclassified error.", "Read the operator's log."
    ),
}
