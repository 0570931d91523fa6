"""Advice about a condition's reason, in the words of the file that its reader wrote: a manifest or an `mcp.json`.

`reasons` speaks of fields of an McpServer and of a cluster. On a laptop there are no pods, and an `mcp.json` has no
`spec`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from fairlead_api.clientkeys import OWN, OWN_FIELDS
from fairlead_api.v1alpha1.conditions import Reason
from fairlead_api.v1alpha1.reasons import EXPLANATIONS

Form = Literal["cluster", "local", "client-configuration"]
"""An McpServer on a cluster, one on a laptop, or an entry of a client's configuration on a laptop."""

_HIDE: Final = (
    "Read the texts that the message names; if they are not harmless, set enabled: false for the tool in "
    "fairlead.tools, or remove the server."
)
_LOG: Final = "Read its log: fairlead logs SERVER."

_LOCAL: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.START_FAILED: "Check the program, its arguments and env; fairlead logs SERVER has what it printed.",
        Reason.CRASH_LOOPING: _LOG,
        Reason.BACKING_OFF: _LOG,
        Reason.PROCESS_EXITED: _LOG,
        Reason.SERVER_ERROR: "Read the server's log; of one that runs here: fairlead logs SERVER.",
        Reason.REGISTRY_UNREACHABLE: "Check the network, or name a mirror in the environment of fairlead up: "
        "UV_DEFAULT_INDEX or npm_config_registry.",
        Reason.TIMEOUT: "It may hang, or wait for input: read its log (fairlead logs SERVER), and run its command by "
        "hand.",
        Reason.QUEUE_TIMEOUT: "It is busy: call it less at once, or raise spec.limits.concurrency.",
        Reason.POOL_FULL: "It is busy or hangs: read its log.",
        Reason.MCP_ERROR: "Run fairlead up --verbose, and read what it prints.",
        Reason.LOOP_DETECTED: "Point spec.url at the server itself, or remove the server.",
        Reason.ADDRESS_NOT_ALLOWED: "Use an address that is meant for it; or allow it in FAIRLEAD_ALLOWED_URLS of "
        "fairlead up.",
        Reason.CONNECTION_REFUSED: "Check spec.url and its port, and that the server runs.",
        Reason.UNKNOWN_HOST: "Check the host name in spec.url.",
        Reason.NOT_CALIBRATED: "Wait; it is probed while it answers, as far as spec.calibration.probe and --probe "
        "allow.",
    }
)

_CLIENT: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.INVALID: "Correct the key in the file.",
        Reason.PREFIX_TAKEN: 'Rename one of the two, or set "fairlead": {"prefix": …} to one that is free.',
        Reason.NOT_SUPPORTED_HERE: "Use command, or url with another type.",
        Reason.COMMAND_NOT_FOUND: "Install it, or correct command; arguments go into args, one by one.",
        Reason.START_FAILED: "Check command, args, cwd and env; fairlead logs SERVER has all that it printed.",
        Reason.QUEUE_TIMEOUT: "It is busy: call it less at once, or raise fairlead.limits.concurrency.",
        Reason.CONNECTION_REFUSED: "Check url and its port, and that the server runs.",
        Reason.UNKNOWN_HOST: "Check the host name in url.",
        Reason.INVALID_URL: "Correct url.",
        Reason.INVALID_HEADER: "Correct headers or fairlead.hostHeader: one of them holds what cannot be sent.",
        Reason.BAD_HTTP: "Check the port in url; a server that speaks over stdio needs command.",
        Reason.NOT_MCP: 'Check the path in url, and type: an older server needs "type": "sse".',
        Reason.HTML_INSTEAD_OF_MCP: "Check the path in url: often /mcp. A login page means that a proxy stands before "
        "it.",
        Reason.EMPTY_ANSWER: "Check the path in url, and type.",
        Reason.TLS_FAILED: "Check the host name in url and the dates of the certificate; an authority of your own "
        "goes into fairlead.caBundle.",
        Reason.UNAUTHORIZED: 'Add its credential to headers, such as "Authorization": "Bearer ${TOKEN}", or renew it.',
        Reason.FORBIDDEN: "Give the credential in headers the rights it needs; or set fairlead.hostHeader, if the "
        "server refuses the Host or Origin.",
        Reason.NOT_FOUND: "Check the path in url: often /mcp.",
        Reason.METHOD_NOT_ALLOWED: 'Check the path in url; a server of the older kind needs "type": "sse".',
        Reason.NOT_ACCEPTABLE: "Check the path in url, and type.",
        Reason.UNSUPPORTED_MEDIA_TYPE: "Check the path in url, and type.",
        Reason.MISDIRECTED_REQUEST: "Set fairlead.hostHeader to a name that it answers to, such as localhost.",
        Reason.TOO_MANY_REQUESTS: "Raise its limits, or set fairlead.limits.callsPerSecond.",
        Reason.LOOP_DETECTED: "Point url at the server itself, or remove the server.",
        Reason.REDIRECTED: "Put the final address into url.",
        Reason.HIDDEN_CHARACTERS: _HIDE,
        Reason.SPEAKS_TO_THE_MODEL: _HIDE,
        Reason.SUSPICIOUS_DEFINITIONS: _HIDE,
        Reason.NOT_CALIBRATED: "Wait; it is probed while it answers, as far as fairlead.calibration.probe and --probe "
        "allow.",
        Reason.CALIBRATION_DISABLED: "Nothing, if that is meant; else set fairlead.calibration.probe to Declared.",
        Reason.NOTHING_TO_PROBE: "Nothing, if that is enough; else give probe.arguments for a tool in fairlead.tools, "
        "or start fairlead up --probe.",
        Reason.PROBES_FAILED: "Give working probe.arguments in fairlead.tools.",
    }
)
ON_A_CLUSTER: Final = frozenset(
    {
        Reason.POD_TEMPLATE_NOT_ALLOWED, Reason.DEFAULT_TAKEN, Reason.NOTHING_SELECTED, Reason.RULES_MATCH_NOTHING,
        Reason.CONFLICTED, Reason.UNKNOWN_TIER, Reason.SECRET_NOT_FOUND, Reason.SECRET_NOT_LABELLED,
        Reason.SECRET_KEY_MISSING, Reason.SECRET_VALUE_INVALID, Reason.HOST_NOT_ALLOWED, Reason.REFS_UNREADABLE,
        Reason.WAITING_FOR_REFS, Reason.DEPLOYING, Reason.STOPPED, Reason.DEPLOYMENT_FAILED, Reason.UNSCHEDULABLE,
        Reason.IMAGE_PULL_FAILED, Reason.RUN_AS_ROOT_REFUSED, Reason.INSTALL_FAILED, Reason.APPLY_REFUSED,
        Reason.APPLY_FAILED, Reason.TOO_MANY_PROCESSES,
    }
)  # fmt: skip
"""Reasons that no server of an `mcp.json` gets: of Deployments, of references, of packages and of other resources."""
_FIELD: Final = re.compile(rf"\bspec\.(?=(?:{'|'.join(OWN_FIELDS)})\b)")


def remedy(reason: Reason, form: Form) -> str:
    """Advice to the person who declared the server; empty where nothing is amiss."""
    if form == "client-configuration" and reason in _CLIENT:
        return _CLIENT[reason]
    if form != "cluster" and reason in _LOCAL:
        return _LOCAL[reason]
    return EXPLANATIONS[reason].remedy


def in_words_of(message: str, form: Form) -> str:
    """A message with the fields of an McpServer where an `mcp.json` has them."""
    return _FIELD.sub(f"{OWN}.", message) if form == "client-configuration" else message
