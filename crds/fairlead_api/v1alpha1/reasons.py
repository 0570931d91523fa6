"""Table of all reasons, with meaning and remedy, for the documentation and the conditions' messages.

One entry per member of `Reason`; the tests hold the two together. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fairlead_api.v1alpha1.conditions import ConditionType, Reason, ReasonExplanation
from fairlead_api.v1alpha1.reasons_verified import VERIFIED

_ACCEPTED: Final = {
    Reason.ACCEPTED: ReasonExplanation("True", "The resource is valid and in force here."),
    Reason.INVALID: ReasonExplanation(
        "False",
        "The spec breaks a rule that the message names; it is older than the rule, or was written past it.",
        "Correct the field and apply again.",
    ),
    Reason.PREFIX_TAKEN: ReasonExplanation(
        "False",
        "An older server has the same prefix. This one is served at its own endpoint only.",
        "Set spec.prefix to one that is free.",
    ),
    Reason.NOT_SUPPORTED_HERE: ReasonExplanation(
        "False",
        "This installation cannot run such a server: an image off a cluster, a local command on one, or a "
        "transport that this version does not have.",
        "Use another source or transport.",
    ),
    Reason.POD_TEMPLATE_NOT_ALLOWED: ReasonExplanation(
        "False",
        "spec.podTemplate sets a field, or a value, that this installation does not let servers set. Nothing is "
        "deployed or changed and the tools are not offered; pods that ran before are left running.",
        "docs/pod-templates.md lists what may be set, and says how an installation allows more.",
    ),
    Reason.DEFAULT_TAKEN: ReasonExplanation(
        "False",
        "Another LatencyTier is the default already; this one works under its own name.",
        "Leave default: true on one tier only.",
    ),
    Reason.NOTHING_SELECTED: ReasonExplanation(
        "Unknown",
        "The policy's selector matches no McpServer of its namespace.",
        "Correct spec.servers, or label a server; a policy written ahead of its servers is fine.",
    ),
    Reason.RULES_MATCH_NOTHING: ReasonExplanation(
        "Unknown",
        "Some rules match no tool; status.unmatchedRules has their places.",
        "Correct the patterns, or wait for the servers that have these tools.",
    ),
    Reason.CONFLICTED: ReasonExplanation(
        "Unknown",
        "Another policy says otherwise about the same tools; status.conflicts says which. Deny wins.",
        "Change one of the two, if that is not what is meant.",
    ),
    Reason.UNKNOWN_TIER: ReasonExplanation(
        "False",
        "The policy names a LatencyTier that does not exist. As max it leaves the fastest tier only, as default it "
        "says nothing; the rest of the policy is in force.",
        "Correct spec.tiers, or create the tier.",
    ),
}

_RESOLVED_REFS: Final = {
    Reason.RESOLVED_REFS: ReasonExplanation(
        "True", "Everything that the spec refers to exists and may be used, or it refers to nothing."
    ),
    Reason.SECRET_NOT_FOUND: ReasonExplanation(
        "False", "There is no Secret of that name in the namespace.", "Create it, or correct the name in the reference."
    ),
    Reason.SECRET_NOT_LABELLED: ReasonExplanation(
        "False",
        "The Secret exists but is not marked as a credential for Fairlead, so it is neither sent to the server nor "
        "given to its pods.",
        "If it is meant for this server: kubectl label secret NAME fairlead.dev/credential=true",
    ),
    Reason.SECRET_KEY_MISSING: ReasonExplanation(
        "False", "The Secret has no such key, or its value is empty.", "Add the key, or name another in secretRef.key."
    ),
    Reason.SECRET_VALUE_INVALID: ReasonExplanation(
        "False",
        "The value cannot be sent in an HTTP header: it holds control characters.",
        "Store the bare token, without a line break inside.",
    ),
    Reason.HOST_NOT_ALLOWED: ReasonExplanation(
        "False",
        "The Secret's annotation fairlead.dev/hosts does not name this server's host, port and scheme, so nothing is "
        "sent to it. An entry without a scheme stands for https.",
        "Add what the message names to the annotation, if the credential is meant for it; better, use https.",
    ),
    Reason.REFS_UNREADABLE: ReasonExplanation(
        "Unknown",
        "The Secrets could not be read now; the values known last stay in use.",
        "Usually nothing: it is tried again. If it stays, check the operator's permissions on Secrets.",
    ),
}

_PROGRAMMED: Final = {
    Reason.PROGRAMMED: ReasonExplanation("True", "It runs as the spec wants it, or there is nothing to run."),
    Reason.WAITING_FOR_REFS: ReasonExplanation(
        "Unknown",
        "Its pods are neither started nor changed, as a Secret that they would read is missing or not meant for them.",
        "Look at the condition ResolvedRefs: it names the Secret.",
    ),
    Reason.DEPLOYING: ReasonExplanation(
        "Unknown", "It has been started and is not up yet.", "Wait; without progress this becomes DeploymentFailed."
    ),
    Reason.INSTALLING: ReasonExplanation(
        "Unknown", "The package is being fetched and installed.", "Wait; the first start takes longest."
    ),
    Reason.STOPPED: ReasonExplanation(
        "False", "The spec asks for 0 replicas.", "Set spec.replicas to 1 or more to start it."
    ),
    Reason.DEPLOYMENT_FAILED: ReasonExplanation(
        "False",
        "Its pods do not come up; the message says what is known.",
        "Look at the events and the pods of the server's Deployment.",
    ),
    Reason.UNSCHEDULABLE: ReasonExplanation(
        "False", "No node takes its pod.", "Lower spec.resources, or make room on the nodes."
    ),
    Reason.IMAGE_PULL_FAILED: ReasonExplanation(
        "False",
        "The image cannot be fetched.",
        "Check name, tag and registry; for a private one set imagePullSecrets in spec.podTemplate.spec, and "
        "label the Secret fairlead.dev/credential=true.",
    ),
    Reason.CRASH_LOOPING: ReasonExplanation(
        "False",
        "The server ends soon after each start; the message has its last words where they are known.",
        "Read its whole log with kubectl logs.",
    ),
    Reason.RUN_AS_ROOT_REFUSED: ReasonExplanation(
        "False",
        "The image insists on the root user, which the restricted security context does not allow.",
        "Set runAsUser in spec.podTemplate.spec.securityContext; to let it run as root, servers.podTemplates of the "
        "chart has to be Any.",
    ),
    Reason.INSTALL_FAILED: ReasonExplanation(
        "False",
        "The package could not be installed.",
        "Check name and version of the package, and package.allowBuild where it would have to be built.",
    ),
    Reason.REGISTRY_UNREACHABLE: ReasonExplanation(
        "False",
        "The package could not be fetched, because its registry cannot be reached; tried again by itself.",
        "Give the pods a way to the registry, or name a mirror in spec.env: UV_DEFAULT_INDEX or npm_config_registry.",
    ),
    Reason.APPLY_REFUSED: ReasonExplanation(
        "False",
        "The API server refused an object of this server.",
        "Often it is an admission policy, a quota, or a bad spec.podTemplate: change that, or have it allowed.",
    ),
    Reason.APPLY_FAILED: ReasonExplanation(
        "Unknown", "The objects of this server could not be written now.", "Usually nothing: it is tried again."
    ),
}

_PROGRAMMED_OR_VERIFIED: Final = {
    Reason.START_FAILED: ReasonExplanation(
        "False", "The process could not be started, or ended at once.", "See all that it printed with fairlead logs."
    ),
    Reason.START_TIMEOUT: ReasonExplanation(
        "False",
        "The process was started, or is being fetched, and did not answer in time.",
        "See all that it printed with fairlead logs; run its command in a terminal, to see what it waits for.",
    ),
    Reason.COMMAND_NOT_FOUND: ReasonExplanation(
        "False", "The program to start does not exist or may not be run.", "Install it, or correct spec.command."
    ),
    Reason.BACKING_OFF: ReasonExplanation(
        "False", "The process ended several times; the next start waits.", "See fairlead logs."
    ),
    Reason.SILENT: ReasonExplanation(
        "Unknown",
        "It was started, or asked for its tools, 10 s ago and has said nothing since.",
        "Wait where a first start still downloads the server. Else run its command by hand: it may wait for input, or "
        "serve HTTP and not stdio; behind a url, see whether that is its MCP endpoint.",
    ),
}

_CALIBRATED: Final = {
    Reason.CALIBRATED: ReasonExplanation("True", "Every tool that may be probed has been probed."),
    Reason.NOT_CALIBRATED: ReasonExplanation(
        "Unknown",
        "Nothing has been measured yet.",
        "Wait; it is probed while it answers, as far as spec.calibration.probe allows.",
    ),
    Reason.CALIBRATION_DISABLED: ReasonExplanation(
        "Unknown",
        "The spec allows no probes; calls of agents are measured all the same.",
        "Nothing, if that is meant; else set spec.calibration.probe to Declared, and remove spec.calibration.enabled.",
    ),
    Reason.NOTHING_TO_PROBE: ReasonExplanation(
        "Unknown",
        "No tool is called unasked; its tools are measured by the calls of agents.",
        "Nothing, if that is enough; else give probe.arguments for a tool in spec.tools, or allow those with "
        "readOnlyHint by spec.calibration.probe: ReadOnly and spec.trustAnnotations: true.",
    ),
    Reason.PROBES_FAILED: ReasonExplanation(
        "False",
        "Probes got errors instead of results.",
        "Give working probe.arguments for these tools.",
    ),
}

_APPROVED: Final = {
    Reason.APPROVED: ReasonExplanation("True", "What the server lists is what was approved, or what it listed first."),
    Reason.CHANGES_HELD_BACK: ReasonExplanation(
        "False",
        "The server lists definitions that differ from the approved ones, or new ones. They are not served; what was "
        "approved is. The message names some of them and the hash of all.",
        "Look at them (fairlead diff SERVER), then approve (fairlead approve SERVER) or have the server set right.",
    ),
}

_DEFINITIONS_CLEAN: Final = {
    Reason.DEFINITIONS_CLEAN: ReasonExplanation(
        "True", "No text that the server lists holds hidden characters or words that speak to the model."
    ),
    Reason.HIDDEN_CHARACTERS: ReasonExplanation(
        "False",
        "Texts of the server hold characters that people do not see: invisible ones, some that turn text around, "
        "escape sequences, or blanks that move text out of view. They are served as they are.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
    Reason.SPEAKS_TO_THE_MODEL: ReasonExplanation(
        "False",
        "Texts of the server hold what is meant for a model and not for its user, such as tags of a prompt or orders "
        "to ignore instructions. They are served as they are.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
    Reason.SUSPICIOUS_DEFINITIONS: ReasonExplanation(
        "False",
        "Texts of the server hold hidden characters, and others speak to the model. They are served as they are.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
}

EXPLANATIONS: Final[Mapping[Reason, ReasonExplanation]] = MappingProxyType(
    {
        **_ACCEPTED,
        **_RESOLVED_REFS,
        **_PROGRAMMED,
        **_PROGRAMMED_OR_VERIFIED,
        **VERIFIED,
        **_CALIBRATED,
        **_APPROVED,
        **_DEFINITIONS_CLEAN,
    }
)
"""Every reason."""

BELONGS_TO: Final[Mapping[ConditionType, tuple[Reason, ...]]] = MappingProxyType(
    {
        ConditionType.ACCEPTED: (*_ACCEPTED,),
        ConditionType.RESOLVED_REFS: (*_RESOLVED_REFS,),
        ConditionType.PROGRAMMED: (
            *_PROGRAMMED,
            *_PROGRAMMED_OR_VERIFIED,
        ),
        ConditionType.VERIFIED: (
            *_PROGRAMMED_OR_VERIFIED,
            *VERIFIED,
        ),
        ConditionType.CALIBRATED: (*_CALIBRATED,),
        ConditionType.APPROVED: (*_APPROVED,),
        ConditionType.DEFINITIONS_CLEAN: (*_DEFINITIONS_CLEAN,),
    }
)
"""Which reasons a condition may have. `Ready` has those of the condition that it follows."""
