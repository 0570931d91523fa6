"""Advice about a condition's cause, in terms of the reader's own file: a manifest or an `mcp.json`.

The advice in `reasons` is for a cluster and names fields of an McpServer. A laptop has no pods, and an `mcp.json` has
no `spec`, so servers that are declared there get the advice in this module. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from fairlead_api.client_files.keys import OWN, OWN_FIELDS
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.reasons import EXPLANATIONS

Form = Literal["cluster", "local", "client-configuration", "litellm"]
"""Declaration of the server: an McpServer on a cluster; or on a laptop an McpServer, an entry of an `mcp.json`, or the
option `--litellm`.
"""

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
_HIDE: Final = (
    "Read the texts that the message names; if they are not harmless, set enabled: false for the tool in "
    "fairlead.tools, or remove the server."
)
_LOG: Final = "Read the server's log: fairlead logs SERVER."

_LOCAL: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        Cause.INVALID: "Correct the field in the file.",
        Cause.VARIABLE_NOT_SET: "Set the variable in the environment of fairlead up, and start the command again.",
        Cause.CHANGES_HELD_BACK: "Look at them (fairlead diff SERVER), then approve (fairlead approve SERVER) or have "
        "the server corrected.",
        Cause.SECRET_NOT_LABELLED: "If the Secret is meant for this server, add the label to the Secret's manifest.",
        Cause.START_FAILED: "Check the program, its arguments and env; fairlead logs SERVER shows what it printed.",
        Cause.COMMAND_NOT_FOUND: "Install the program, or correct spec.command.",
        Cause.START_TIMEOUT: "Read the output of the process with fairlead logs SERVER; run the command in a terminal, "
        "to see what the server waits for.",
        Cause.CRASH_LOOPING: _LOG,
        Cause.BACKING_OFF: _LOG,
        Cause.PROCESS_EXITED: _LOG,
        Cause.SERVER_ERROR: "Read the server's log: with fairlead logs SERVER, if fairlead up runs the server.",
        Cause.REGISTRY_UNREACHABLE: "Check the network, or name a mirror in the environment of fairlead up: "
        "UV_DEFAULT_INDEX or npm_config_registry.",
        Cause.TIMEOUT: "The server may hang, or wait for input: read its log (fairlead logs SERVER), and run "
        "its command by hand.",
        Cause.QUEUE_TIMEOUT: "The server is busy: make fewer calls at once, or raise spec.limits.concurrency.",
        Cause.POOL_FULL: "The server is busy or hangs: read its log.",
        Cause.MCP_ERROR: "Run fairlead up --verbose, and read its output.",
        Cause.LOOP_DETECTED: "Point spec.url at the server itself, or remove the server.",
        Cause.ADDRESS_NOT_ALLOWED: "Use another address; or allow the server's address in FAIRLEAD_ALLOWED_URLS of "
        "fairlead up.",
        Cause.UNKNOWN_TIER: "Correct the field that the message names, or create the tier.",
        Cause.HTTP_REFUSED: "Check the path in spec.url, and read the server's log.",
        Cause.CONNECTION_REFUSED: "Check spec.url and its port, and whether the server runs.",
        Cause.UNKNOWN_HOST: "Check the host name in spec.url, and whether this machine is online.",
        Cause.SIGN_IN_REQUIRED: "Sign in, or enter your key: fairlead login SERVER. If one token or key is for "
        "everybody, set spec.auth.bearer instead, or spec.auth.header for a header other than Authorization.",
        Cause.NOT_CALIBRATED: "Wait: the tools are probed if spec.calibration.probe and --probe allow it.",
    }
)

_CLIENT: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        Cause.INVALID: "Correct the key in the file.",
        Cause.PREFIX_TAKEN: 'Rename one of the two servers, or set "fairlead": {"prefix": …} to a free prefix.',
        Cause.NOT_SUPPORTED_HERE: "Use command, or url with another type.",
        Cause.UNKNOWN_TIER: "Correct minTier in fairlead.tools, or create the tier.",
        Cause.UNKNOWN_TOOL: "Correct the names in the entry's lists of tools or in fairlead.tools, without prefix, "
        "unless the server lists these tools later.",
        Cause.COMMAND_NOT_FOUND: "Install the program, or correct command; arguments go into args, one by one.",
        Cause.START_FAILED: "Check command, args, cwd and env; fairlead logs SERVER shows what it printed.",
        Cause.QUEUE_TIMEOUT: "The server is busy: make fewer calls at once, or raise fairlead.limits.concurrency.",
        Cause.HTTP_REFUSED: "Check the path in url, and read the server's log.",
        Cause.CONNECTION_REFUSED: "Check url and its port, and whether the server runs.",
        Cause.UNKNOWN_HOST: "Check the host name in url, and whether this machine is online.",
        Cause.INVALID_URL: "Correct url.",
        Cause.INVALID_HEADER: "Correct headers or fairlead.hostHeader; they have characters that HTTP does not allow.",
        Cause.BAD_HTTP: "Check the port in url; a server that speaks over stdio needs command.",
        Cause.NOT_MCP: 'Check the path in url, and type: an older server needs "type": "sse".',
        Cause.HTML_INSTEAD_OF_MCP: "Check the path in url: often /mcp. A login page comes from a proxy.",
        Cause.EMPTY_ANSWER: "Check the path in url, and type.",
        Cause.TLS_FAILED: "Check the host name in url and the dates of the certificate; your own certificate authority "
        "goes into fairlead.caBundle.",
        Cause.UNAUTHORIZED: 'Add a credential to headers, such as "Authorization": "Bearer ${TOKEN}", or renew the '
        "existing credential.",
        Cause.FORBIDDEN: "Give the credential in headers the rights it needs; or set fairlead.hostHeader, if the "
        "server rejects the Host or Origin.",
        Cause.GRANT_FAILED: "Correct the client, its secret, scopes, audience or resource in fairlead.auth or "
        "fairlead.discovery.auth, or register the client's grant at the issuer.",
        Cause.LISTS_NEED_CREDENTIAL: "Give Fairlead a credential for lists: fairlead.discovery.auth, with "
        "clientCredentials, bearer, header or, for userConsent and for userKey with a header, firstGrant.",
        Cause.SIGN_IN_REQUIRED: "Sign in, or enter your key: fairlead login SERVER. If the server takes a token of "
        'yours instead, add it to headers, such as "Authorization": "Bearer ${TOKEN}".',
        Cause.ISSUER_UNREACHABLE: "Check the issuer in fairlead.auth or fairlead.discovery.auth, and the network; "
        "it is asked again.",
        Cause.CALLS_NOT_GRANTED: "Correct the client, its secret or the issuer in fairlead.auth, or register the "
        "client's grant at the issuer.",
        Cause.CALLS_ISSUER_UNREACHABLE: "Check the issuer in fairlead.auth, and the network; it is asked again.",
        Cause.SECRET_VALUE_INVALID: "Correct secret or secretFile: a token or secret in one line, or a private key as "
        "PEM or JWK with clientAuthentication private_key_jwt.",
        Cause.NOT_FOUND: "Check the path in url: often /mcp.",
        Cause.METHOD_NOT_ALLOWED: 'Check the path in url; a server with HTTP+SSE needs "type": "sse".',
        Cause.NOT_ACCEPTABLE: "Check the path in url, and type.",
        Cause.UNSUPPORTED_MEDIA_TYPE: "Check the path in url, and type.",
        Cause.MISDIRECTED_REQUEST: "Set fairlead.hostHeader to a name that the server accepts, such as localhost.",
        Cause.TOO_MANY_REQUESTS: "Raise the server's limits, or lower fairlead.limits.callsPerMinute.",
        Cause.LOOP_DETECTED: "Point url at the server itself, or remove the server.",
        Cause.REDIRECTED: "Put the final address into url.",
        Cause.HIDDEN_CHARACTERS: _HIDE,
        Cause.SPEAKS_TO_THE_MODEL: _HIDE,
        Cause.SUSPICIOUS_DEFINITIONS: _HIDE,
        Cause.NOT_CALIBRATED: "Wait: the tools are probed if fairlead.calibration.probe and --probe allow it.",
        Cause.CALIBRATION_DISABLED: "Nothing, if that is intended; else set fairlead.calibration.probe to Declared.",
        Cause.NOTHING_TO_PROBE: "Nothing, if that is enough; else give probe.arguments for a tool in fairlead.tools, "
        "or start fairlead up --probe.",
        Cause.PROBES_FAILED: "Give working probe.arguments in fairlead.tools.",
    }
)
_PROXY: Final = "Check the address of the proxy (--litellm or FAIRLEAD_LITELLM_URL)"
_PROXY_PATH: Final = f"{_PROXY}: its MCP endpoint is /mcp below it."
_LITELLM: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        Cause.CONNECTION_REFUSED: f"{_PROXY} and its port, and whether the proxy runs.",
        Cause.UNKNOWN_HOST: f"{_PROXY}, and whether this machine is online.",
        Cause.CONNECT_TIMEOUT: f"{_PROXY}, and the network.",
        Cause.TLS_FAILED: f"{_PROXY}, and the certificate that the message names.",
        Cause.HTTP_REFUSED: "Check the key in FAIRLEAD_LITELLM_KEY and the address in --litellm; read the proxy's log.",
        Cause.UNAUTHORIZED: "Set FAIRLEAD_LITELLM_KEY to a key of the proxy, and start fairlead up again.",
        Cause.FORBIDDEN: "Give the key in FAIRLEAD_LITELLM_KEY the right to use the proxy's MCP servers.",
        Cause.REDIRECTED: f"{_PROXY}: give the final address.",
        Cause.LOOP_DETECTED: f"{_PROXY}: it leads to this gateway.",
        **dict.fromkeys(
            (
                Cause.NOT_MCP,
                Cause.HTML_INSTEAD_OF_MCP,
                Cause.EMPTY_ANSWER,
                Cause.NOT_FOUND,
                Cause.METHOD_NOT_ALLOWED,
                Cause.NOT_ACCEPTABLE,
                Cause.UNSUPPORTED_MEDIA_TYPE,
                Cause.BAD_HTTP,
            ),
            _PROXY_PATH,
        ),
    }
)
"""The proxy is like a server of an `mcp.json`, but nobody wrote `url` or `headers`."""
_RUN_IT: Final = "Run its command by hand: standard output may only contain MCP."
_PERHAPS_NEWER: Final = "Read the server's log. If the server speaks streamable HTTP instead of HTTP+SSE"
_HANGS: Final = "The server may hang: check what responds at the url, and its path. A server with HTTP+SSE needs "
_WHERE_IT_RUNS: Final[Mapping[Form, str]] = MappingProxyType(
    dict.fromkeys(("local", "client-configuration"), "Read the server's log, where it runs, and check its url.")
)
_SSE_PATH: Final[Mapping[Form, str]] = MappingProxyType(
    {
        "cluster": "Check spec.image.path or the path in spec.url: often /sse. A newer server needs "
        "transport: streamable-http.",
        "local": "Check the path in spec.url: often /sse. A newer server needs transport: streamable-http.",
        "client-configuration": 'Check the path in url: often /sse. A newer server needs "type": "http".',
    }
)
_BY_TRANSPORT: Final[Mapping[tuple[Cause, str], Mapping[Form, str]]] = MappingProxyType(
    {
        (Cause.NOT_MCP, "stdio"): {
            "cluster": "Read the server's log, and run its command by hand: standard output may only contain MCP.",
            "local": _RUN_IT,
            "client-configuration": _RUN_IT,
        },
        (Cause.NOT_MCP, "sse"): _SSE_PATH,
        (Cause.NOT_FOUND, "sse"): _SSE_PATH,
        (Cause.METHOD_NOT_ALLOWED, "sse"): {
            "cluster": "Check spec.image.path or the path in spec.url; a newer server needs "
            "transport: streamable-http.",
            "local": "Check the path in spec.url; a newer server needs transport: streamable-http.",
            "client-configuration": 'Check the path in url; a newer server needs "type": "http".',
        },
        (Cause.UNAUTHORIZED, "sse"): {
            "local": "Set spec.auth, or renew the value in its Secret. To sign in instead, use the server's URL for "
            "streamable HTTP, often with /mcp in place of /sse.",
            "client-configuration": 'Add a credential to headers, such as "Authorization": "Bearer ${TOKEN}", or renew '
            'the existing credential. To sign in instead, use "type": "http" with the server\'s URL for it, often with '
            "/mcp in place of /sse.",
        },
        (Cause.RPC_ERROR, "stdio"): {"local": _LOG, "client-configuration": _LOG},
        (Cause.RPC_ERROR, "sse"): {
            "cluster": f"{_PERHAPS_NEWER}, correct spec.remote.transport or spec.image.transport.",
            "local": f"{_PERHAPS_NEWER}, correct spec.remote.transport.",
            "client-configuration": f'{_PERHAPS_NEWER}, set "type": "http".',
        },
        (Cause.SERVER_ERROR, "streamable-http"): _WHERE_IT_RUNS,
        (Cause.SERVER_ERROR, "sse"): _WHERE_IT_RUNS,
        (Cause.TIMEOUT, "streamable-http"): {
            "local": f"{_HANGS}transport: sse.",
            "client-configuration": f'{_HANGS}"type": "sse".',
        },
        (Cause.TIMEOUT, "sse"): {
            "local": "The server may hang: check what responds at the url, and its path.",
            "client-configuration": "The server may hang: check what responds at the url, and its path.",
        },
    }
)
"""Advice by cause and transport, in place of the general advice about the cause."""
_DOCUMENT_REQUESTS: Final = frozenset(
    {
        Cause.UNREACHABLE,
        Cause.INVALID_URL,
        Cause.UNKNOWN_HOST,
        Cause.CONNECTION_REFUSED,
        Cause.CONNECT_TIMEOUT,
        Cause.CONNECTION_LOST,
        Cause.CLOSED_MID_ANSWER,
        Cause.TLS_FAILED,
        Cause.TIMEOUT,
        Cause.ANSWER_TOO_LARGE,
    }
)
"""Causes that concern the request of an OpenAPI document, where the server is an HTTP API."""
_DOCUMENT_ANSWERS: Final = frozenset(
    {
        Cause.UNAUTHORIZED,
        Cause.FORBIDDEN,
        Cause.NOT_FOUND,
        Cause.METHOD_NOT_ALLOWED,
        Cause.NOT_ACCEPTABLE,
        Cause.TOO_MANY_REQUESTS,
        Cause.REDIRECTED,
        Cause.SERVER_ERROR,
        Cause.HTTP_REFUSED,
    }
)
"""Statuses in place of an OpenAPI document, whose messages say already which URL to use."""
_DOCUMENT: Final = (
    "Check the URL (spec.openapi.url), from which the document is requested without a credential; or keep a copy, "
)
_OTHER_PLACE: Final[Mapping[Form, str]] = MappingProxyType(
    {
        "cluster": "in a ConfigMap that spec.openapi.configMapRef names.",
        "local": "in a file for `fairlead up FILE` or spec.openapi.file.",
    }
)
ON_A_CLUSTER: Final = frozenset(
    {
        Cause.POD_TEMPLATE_NOT_ALLOWED,
        Cause.RULE_INVALID,
        Cause.UNKNOWN_KEYWORD,
        Cause.DEFAULT_TAKEN,
        Cause.NOTHING_SELECTED,
        Cause.RULES_MATCH_NOTHING,
        Cause.HINTS_NOT_TRUSTED,
        Cause.PINS_MATCH_NOTHING,
        Cause.DEFAULT_BEYOND_MAX,
        Cause.CONFLICTED,
        Cause.PATTERNS_MATCH_NOTHING,
        Cause.UNKNOWN_SECURITY_SCHEME,
        Cause.SECRET_NOT_FOUND,
        Cause.SECRET_NOT_LABELLED,
        Cause.SECRET_KEY_MISSING,
        Cause.HOST_NOT_ALLOWED,
        Cause.REFS_UNREADABLE,
        Cause.SECRET_BEING_READ,
        Cause.WAITING_FOR_REFS,
        Cause.DEPLOYING,
        Cause.BEING_REPLACED,
        Cause.PROBE_FAILED,
        Cause.POD_WARNING,
        Cause.STOPPED,
        Cause.DEPLOYMENT_FAILED,
        Cause.PODS_MISSING,
        Cause.UNSCHEDULABLE,
        Cause.VOLUME_UNAVAILABLE,
        Cause.NODES_EXCLUDED,
        Cause.IMAGE_PULL_FAILED,
        Cause.RUN_AS_ROOT_REFUSED,
        Cause.INSTALL_FAILED,
        Cause.APPLY_REFUSED,
        Cause.APPLY_FAILED,
        Cause.TOO_MANY_PROCESSES,
        Cause.NETWORK_POLICY_ENFORCED,
        Cause.NETWORK_POLICY_NOT_ENFORCED,
        Cause.NETWORK_POLICY_NOT_PROBED,
        Cause.NAME_TAKEN,
        Cause.PREFIX_RESERVED,
    }
)
"""Causes that a server of an `mcp.json` cannot have: they concern Deployments, references, packages and other kinds."""
_FIELD: Final = re.compile(rf"\bspec\.(?:remote\.)?(?=(?:{'|'.join(OWN_FIELDS)})\b)")


_PLACEHOLDER: Final = re.compile(r"\b[A-Z]+\b")


def remedy(cause: Cause, form: Form, transport: str = "", names: Mapping[str, str] = NO_NAMES) -> str:
    """Advice for the person who declared the server; empty if nothing is wrong. `transport` is the server's
    `spec.effective_transport`. `names` replaces placeholders such as `SERVER`, so that commands can be pasted.
    """
    return _PLACEHOLDER.sub(lambda word: names.get(word[0], word[0]), _remedy(cause, form, transport))


def _remedy(cause: Cause, form: Form, transport: str) -> str:
    if form == "litellm":
        return _LITELLM.get(cause) or _remedy(cause, "client-configuration", transport)
    if advice := _BY_TRANSPORT.get((cause, transport), {}).get(form):
        return advice
    if transport == "openapi" and cause in _DOCUMENT_REQUESTS:
        return _DOCUMENT + _OTHER_PLACE.get(form, _OTHER_PLACE["local"])
    if transport == "openapi" and cause in _DOCUMENT_ANSWERS:
        return "Or keep a copy of the document " + _OTHER_PLACE.get(form, _OTHER_PLACE["local"])
    if form == "client-configuration" and cause in _CLIENT:
        return _CLIENT[cause]
    if form != "cluster" and cause in _LOCAL:
        return _LOCAL[cause]
    return EXPLANATIONS[cause].remedy


def in_words_of(message: str, form: Form) -> str:
    """The message, in which the fields of an McpServer are replaced by the keys of an `mcp.json` if the server is
    declared in such a file.
    """
    return _FIELD.sub(f"{OWN}.", message) if form == "client-configuration" else message
