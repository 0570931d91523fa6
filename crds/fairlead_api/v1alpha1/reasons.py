"""Table of all causes, with meaning and remedy, for the documentation and the conditions' messages.

One entry per member of `Cause`; the tests hold the two together. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fairlead_api.meta import pod_logs
from fairlead_api.v1alpha1.causes import Cause, CauseExplanation
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.reasons_verified import VERIFIED

_ACCEPTED: Final = {
    Cause.ACCEPTED: CauseExplanation("True", "The resource is valid and in force here."),
    Cause.INVALID: CauseExplanation(
        "False",
        "Its declaration breaks a rule that its message names: a spec that is older than the rule or was written past "
        "it, or an entry of a file.",
        "Correct the field and apply again.",
    ),
    Cause.NOT_SUPPORTED_HERE: CauseExplanation(
        "False",
        "This installation cannot run such a server: an image off a cluster, a local command on one, a "
        "transport that this version does not have, or domainNames where Cilium is not installed.",
        "Use another source or transport, or cidrs; the message says which.",
    ),
    Cause.POD_TEMPLATE_NOT_ALLOWED: CauseExplanation(
        "False",
        "spec.unrestrictedPodTemplate is set, which this installation does not let servers do. Nothing is "
        "deployed or changed and the tools are not offered; pods that ran before are left running.",
        "Use spec.podTemplate; docs/configure/pod-templates.md says how an installation allows more.",
    ),
}

_PARTIALLY_INVALID: Final = {
    Cause.RULE_INVALID: CauseExplanation(
        "True",
        "A rule's arguments are not a usable JSON Schema, so it allows nothing; the other rules are in force.",
        "Correct the schema that the message names.",
    ),
    Cause.UNKNOWN_TIER: CauseExplanation(
        "True",
        "The policy, or minTier of a tool, names a LatencyTier that does not exist. As max it leaves the fastest tier "
        "only, as minTier the slowest only, as default it says nothing; all else is in force.",
        "Correct the field that the message names, or create the tier.",
    ),
    Cause.NOTHING_SELECTED: CauseExplanation(
        "True",
        "The policy's selector matches no McpServer of its namespace.",
        "Correct spec.servers, or label a server; a policy written ahead of its servers is fine.",
    ),
    Cause.RULES_MATCH_NOTHING: CauseExplanation(
        "True",
        "Some rules match no tool; status.unmatchedRules names them.",
        "Correct the patterns, or wait for the servers that have these tools.",
    ),
}

_CONFLICTED: Final = {
    Cause.PREFIX_TAKEN: CauseExplanation(
        "True",
        "Another server has the same prefix and had it first. This one is served at its own endpoint only.",
        "Set spec.prefix to one that is free.",
    ),
    Cause.PREFIX_RESERVED: CauseExplanation(
        "True",
        "The prefix belongs to a server that was deleted. Until the reservation ends, only a server of that namespace "
        "and name gets it; this one is served at its own endpoint only.",
        "Set spec.prefix to one that is free; or have the namespace of the deleted server release it: annotate any "
        "McpServer in OWNER with fairlead.dev/release-prefix=PREFIX.",
    ),
    Cause.DEFAULT_TAKEN: CauseExplanation(
        "True",
        "Another LatencyTier is the default already; this one works under its own name.",
        "Leave default: true on one tier only.",
    ),
    Cause.CONFLICTED: CauseExplanation(
        "True",
        "Another policy says otherwise about the same tools; status.conflicts says which. Deny wins.",
        "Change one of the two, if that is not what is meant.",
    ),
    Cause.WRITES_UNDONE: CauseExplanation(
        "True",
        "Somebody changes an object of this server each time that it is put back, so it is put back ever more seldom.",
        "Have the other writer leave it alone: a controller, a GitOps tool, or a second installation of Fairlead.",
    ),
}

_RESOLVED_REFS: Final = {
    Cause.RESOLVED_REFS: CauseExplanation(
        "True", "Everything that the spec refers to exists and may be used, or it refers to nothing."
    ),
    Cause.SECRET_NOT_FOUND: CauseExplanation(
        "False", "There is no Secret of that name in the namespace.", "Create it, or correct the name in the reference."
    ),
    Cause.SECRET_NOT_LABELLED: CauseExplanation(
        "False",
        "The Secret exists but is not marked as a credential for Fairlead, so it is neither sent to the server nor "
        "given to its pods.",
        "If it is meant for this server: kubectl label secret SECRET -n NAMESPACE fairlead.dev/credential=true",
    ),
    Cause.SECRET_KEY_MISSING: CauseExplanation(
        "False", "The Secret has no such key, or its value is empty.", "Add the key, or name another in secretRef.key."
    ),
    Cause.SECRET_VALUE_INVALID: CauseExplanation(
        "False",
        "The value cannot be sent in an HTTP header: it holds control characters.",
        "Store the bare token, without a line break inside.",
    ),
    Cause.VARIABLE_NOT_SET: CauseExplanation(
        "False",
        "An entry of an `mcp.json` names a variable that is not set in the environment of `fairlead up`, so the "
        "server is not run.",
        "Set it in the environment of the program that reads the file, and start that again.",
    ),
    Cause.HOST_NOT_ALLOWED: CauseExplanation(
        "False",
        "The Secret's annotation fairlead.dev/hosts does not name this server's host, port and scheme, so nothing is "
        "sent to it. An entry without a scheme stands for https.",
        "Add what the message names to the annotation, if the credential is meant for it; better, use https.",
    ),
    Cause.SECRETS_NOT_READABLE: CauseExplanation(
        "False",
        "The operator may read Secrets in some namespaces only, and that of the server is not one of them.",
        "Have the namespace added to rbac.secretNamespaces of the chart, or declare the server in one that is there.",
    ),
    Cause.REFS_UNREADABLE: CauseExplanation(
        "Unknown",
        "The Secrets could not be read now; the values known last stay in use.",
        "Usually nothing: it is tried again. If it stays, check the operator's permissions on Secrets.",
    ),
}

_PROGRAMMED: Final = {
    Cause.PROGRAMMED: CauseExplanation("True", "It runs as the spec wants it, or there is nothing to run."),
    Cause.WAITING_FOR_REFS: CauseExplanation(
        "Unknown",
        "Its pods are neither started nor changed, as a Secret that they would read is missing or not meant for them.",
        "Look at the condition ResolvedRefs: it names the Secret.",
    ),
    Cause.DEPLOYING: CauseExplanation(
        "Unknown", "It has been started and is not up yet.", "Wait; without progress this becomes DeploymentFailed."
    ),
    Cause.PROBE_FAILED: CauseExplanation(
        "Unknown",
        "Its container runs, and a probe of it fails; the message quotes what Kubernetes tells of the probe.",
        "Wait for one that starts slowly; else correct the server, or the probe in spec.podTemplate.",
    ),
    Cause.POD_WARNING: CauseExplanation(
        "Unknown",
        "Kubernetes warns about its pod, which is not ready; the message quotes the last warning.",
        "Mend what the message names: a sandbox, a volume, a network, a limit in spec.resources. It is tried again.",
    ),
    Cause.INSTALLING: CauseExplanation(
        "Unknown", "The package is being fetched and installed.", "Wait; the first start takes longest."
    ),
    Cause.STOPPED: CauseExplanation(
        "False", "The spec asks for 0 replicas.", "Set spec.replicas to 1 or more to start it."
    ),
    Cause.DEPLOYMENT_FAILED: CauseExplanation(
        "False",
        "Its pods do not come up; the message says what is known.",
        "Look at the events and the pods of the server's Deployment.",
    ),
    Cause.UNSCHEDULABLE: CauseExplanation(
        "False", "No node has room for its pod.", "Lower spec.resources, or make room on the nodes."
    ),
    Cause.VOLUME_UNAVAILABLE: CauseExplanation(
        "False",
        "No node takes its pod, as a volume that spec.podTemplate names is missing, is not provided, or is on a node "
        "that does not fit.",
        "Look at the claim with kubectl describe pvc: create it, or name a StorageClass and node that can provide it.",
    ),
    Cause.NODES_EXCLUDED: CauseExplanation(
        "False",
        "No node takes its pod, as none fits its nodeSelector, affinity or tolerations, or all that do are cordoned.",
        "Correct nodeSelector, affinity or tolerations in spec.podTemplate.spec, or the labels and taints of the "
        "nodes.",
    ),
    Cause.IMAGE_PULL_FAILED: CauseExplanation(
        "False",
        "The image cannot be fetched.",
        "Check name, tag and registry; for a private one set imagePullSecrets in spec.podTemplate.spec, and "
        "label the Secret fairlead.dev/credential=true.",
    ),
    Cause.CRASH_LOOPING: CauseExplanation(
        "False",
        "The server ends soon after each start; the message has its last words where they are known.",
        f"Read its whole log: {pod_logs()}",
    ),
    Cause.RUN_AS_ROOT_REFUSED: CauseExplanation(
        "False",
        "The image insists on the root user, which the restricted security context does not allow.",
        "Set runAsUser in spec.podTemplate.spec.securityContext; to let it run as root, use "
        "spec.unrestrictedPodTemplate, which servers.podTemplates: Any of the chart allows.",
    ),
    Cause.INSTALL_FAILED: CauseExplanation(
        "False",
        "The package could not be installed.",
        "Check name and version of the package, and package.allowBuild where it would have to be built.",
    ),
    Cause.REGISTRY_UNREACHABLE: CauseExplanation(
        "False",
        "The package could not be fetched, because its registry cannot be reached; tried again by itself.",
        "Give the pods a way to the registry, or name a mirror in spec.env: UV_DEFAULT_INDEX or npm_config_registry.",
    ),
    Cause.APPLY_REFUSED: CauseExplanation(
        "False",
        "The API server refused an object of this server.",
        "If the message names a field, correct it where the spec sets it, such as in spec.podTemplate; else it is an "
        "admission policy or a quota: change that, or have it allowed.",
    ),
    Cause.NAME_TAKEN: CauseExplanation(
        "False",
        "An object of the server's name exists already and belongs to somebody else; it is left alone.",
        "Give the McpServer another name, or delete that object.",
    ),
    Cause.APPLY_FAILED: CauseExplanation(
        "Unknown", "The objects of this server could not be written now.", "Usually nothing: it is tried again."
    ),
}

_PROGRAMMED_OR_VERIFIED: Final = {
    Cause.START_FAILED: CauseExplanation(
        "False",
        "The process could not be started, or ended at once.",
        f"See all that it printed: {pod_logs()}",
    ),
    Cause.START_TIMEOUT: CauseExplanation(
        "False",
        "The process was started, or is being fetched, and did not answer in time.",
        "Run its command by hand, to see whether it waits for input, or serves HTTP and not stdio. See all that it "
        f"printed: {pod_logs()}",
    ),
    Cause.COMMAND_NOT_FOUND: CauseExplanation(
        "False",
        "The program to start does not exist or may not be run.",
        "Correct spec.image.command, or use an image that has the program.",
    ),
    Cause.BACKING_OFF: CauseExplanation(
        "False", "The process ended several times; the next start waits.", f"See all that it printed: {pod_logs()}"
    ),
    Cause.SILENT: CauseExplanation(
        "Unknown",
        "It was started, or asked for its tools, about 10 s ago and has said nothing since.",
        "Wait where a first start still downloads the server. Else run its command by hand: it may wait for input, or "
        "serve HTTP and not stdio; behind a url, see whether that is its MCP endpoint.",
    ),
}

_CALIBRATED: Final = {
    Cause.CALIBRATED: CauseExplanation("True", "Every tool that may be probed has been probed."),
    Cause.NOT_CALIBRATED: CauseExplanation(
        "Unknown",
        "Nothing has been measured yet.",
        "Wait; it is probed while it answers, as far as spec.calibration.probe allows.",
    ),
    Cause.CALIBRATION_DISABLED: CauseExplanation(
        "False",
        "The spec allows no probes; calls of agents are measured all the same.",
        "Nothing, if that is meant; else set spec.calibration.probe to Declared.",
    ),
    Cause.NOTHING_TO_PROBE: CauseExplanation(
        "False",
        "No tool is called unasked; its tools are measured by the calls of agents.",
        "Nothing, if that is enough; else give probe.arguments for a tool in spec.tools, or allow those with "
        "readOnlyHint by spec.calibration.probe: ReadOnly and spec.trustAnnotations: true.",
    ),
    Cause.PROBES_FAILED: CauseExplanation(
        "False",
        "Probes got errors instead of results.",
        "Give working probe.arguments for these tools.",
    ),
}

_APPROVED: Final = {
    Cause.APPROVED: CauseExplanation("True", "What the server lists is what was approved, or what it listed first."),
    Cause.CHANGES_HELD_BACK: CauseExplanation(
        "False",
        "The server lists definitions that differ from the approved ones, or new ones. They are not served; what was "
        "approved is. The message names some of them and the hash of all.",
        "Look at them (fairlead diff SERVER), then approve (fairlead approve SERVER) or have the server set right.",
    ),
}

_DEFINITIONS_CLEAN: Final = {
    Cause.DEFINITIONS_CLEAN: CauseExplanation(
        "True", "No text that the server lists holds hidden characters or words that speak to the model."
    ),
    Cause.HIDDEN_CHARACTERS: CauseExplanation(
        "False",
        "Texts of the server hold characters that people do not see: invisible ones, some that turn text around, "
        "escape sequences, or blanks that move text out of view. They are served as they are.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
    Cause.SPEAKS_TO_THE_MODEL: CauseExplanation(
        "False",
        "Texts of the server hold what is meant for a model and not for its user, such as tags of a prompt or orders "
        "to ignore instructions. They are served as they are.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
    Cause.SUSPICIOUS_DEFINITIONS: CauseExplanation(
        "False",
        "Texts of the server hold hidden characters, and others speak to the model. They are served as they are.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
}

_NETWORK_POLICY_ENFORCED: Final = {
    Cause.NETWORK_POLICY_ENFORCED: CauseExplanation("True", "A NetworkPolicy held a probe back, both ways."),
    Cause.NETWORK_POLICY_NOT_ENFORCED: CauseExplanation(
        "False",
        "The API server takes NetworkPolicies and nothing enforces them: a probe connected where none allows it. Any "
        "pod of the cluster can connect to the server's pods, or spec.network.egress has no effect; the message says "
        "which.",
        "Install a network plugin that enforces NetworkPolicies, such as Calico or Cilium; until then let nobody run "
        "pods in the cluster who may not call its servers.",
    ),
    Cause.NETWORK_POLICY_NOT_PROBED: CauseExplanation(
        "Unknown",
        "The probe had no answer; the message says why.",
        "Mend what the message names. The probe runs again a day after the last one, or minutes after the ConfigMap "
        "fairlead-network-policies of the release's namespace is deleted.",
    ),
}

EXPLANATIONS: Final[Mapping[Cause, CauseExplanation]] = MappingProxyType(
    {
        **_ACCEPTED,
        **_PARTIALLY_INVALID,
        **_CONFLICTED,
        **_RESOLVED_REFS,
        **_PROGRAMMED,
        **_PROGRAMMED_OR_VERIFIED,
        **VERIFIED,
        **_CALIBRATED,
        **_APPROVED,
        **_DEFINITIONS_CLEAN,
        **_NETWORK_POLICY_ENFORCED,
    }
)
"""Every cause."""

BELONGS_TO: Final[Mapping[ConditionType, tuple[Cause, ...]]] = MappingProxyType(
    {
        ConditionType.ACCEPTED: (*_ACCEPTED,),
        ConditionType.PARTIALLY_INVALID: (*_PARTIALLY_INVALID,),
        ConditionType.CONFLICTED: (*_CONFLICTED,),
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
        ConditionType.NETWORK_POLICY_ENFORCED: (*_NETWORK_POLICY_ENFORCED,),
    }
)
"""Causes that a condition may have. `Ready` has those of the condition that it follows."""
