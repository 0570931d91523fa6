"""Meaning and remedy of every cause, for the documentation and for conditions' messages.

There is one entry per member of `Cause`. This module has no I/O.
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
    Cause.ACCEPTED: CauseExplanation("True", "The resource is valid and applied."),
    Cause.INVALID: CauseExplanation(
        "False",
        "A field breaks a rule that the message names. The spec is older than the rule or bypassed the API server's "
        "validation, or it is an entry of a file.",
        "Correct the field and apply again.",
    ),
    Cause.NOT_SUPPORTED_HERE: CauseExplanation(
        "False",
        "This installation cannot run such a server: an image outside of a cluster, a local command on a cluster, a "
        "transport that this version does not support, or domainNames where Cilium is not installed.",
        "Use another source or transport, or cidrs, as the message says.",
    ),
    Cause.POD_TEMPLATE_NOT_ALLOWED: CauseExplanation(
        "False",
        "spec.unrestrictedPodTemplate is set, which this installation does not allow. Nothing is deployed or changed "
        "and the tools are not offered; pods that already run keep running.",
        "Use spec.podTemplate; docs/configure/pod-templates.md says how an installation allows more.",
    ),
}

_PARTIALLY_INVALID: Final = {
    Cause.RULE_INVALID: CauseExplanation(
        "True",
        "A rule's arguments are not a usable JSON Schema, so it allows nothing; the other rules are applied.",
        "Correct the schema that the message names.",
    ),
    Cause.UNKNOWN_KEYWORD: CauseExplanation(
        "True",
        "A rule's arguments have keywords that are unknown to JSON Schema, so these keywords restrict nothing. All "
        "other keywords are applied.",
        "Correct the keywords that the message names; what is said of a single argument stands under properties.",
    ),
    Cause.UNKNOWN_TIER: CauseExplanation(
        "True",
        "The policy, or minTier of a tool, names a LatencyTier that does not exist. An unknown max allows the fastest "
        "tier only, an unknown minTier the slowest only, an unknown default has no effect. All other fields are "
        "applied.",
        "Correct the field that the message names, or create the tier. An installation of one namespace has the tiers "
        "of its chart's values, unless rbac.latencyTiers is set.",
    ),
    Cause.UNKNOWN_TOOL: CauseExplanation(
        "True",
        "spec.tools names tools that the server does not list, so what it says about them, such as enabled: false, has "
        "no effect. All other overrides are applied.",
        "Correct the names in spec.tools, without prefix, unless the server lists these tools later.",
    ),
    Cause.PODS_MISSING: CauseExplanation(
        "True",
        "Some pods of the server cannot start: fewer than spec.replicas serve, or those of an earlier spec still do. "
        "The message says why.",
        "Correct what the message names: the changed field, a quota, or the resources of the nodes.",
    ),
    Cause.UNKNOWN_SECURITY_SCHEME: CauseExplanation(
        "True",
        "spec.openapi.credentials names security schemes that the OpenAPI document does not have, so these credentials "
        "are never sent. All other credentials are.",
        "Correct the names in spec.openapi.credentials: they are those of components.securitySchemes.",
    ),
    Cause.DEFAULT_BEYOND_MAX: CauseExplanation(
        "True",
        "tiers.default is slower than tiers.max, so agents that choose no tier get max. All other fields are applied.",
        "Name a default that is as fast as max or faster, or a slower max.",
    ),
    Cause.NOTHING_SELECTED: CauseExplanation(
        "True",
        "The policy's selector matches no McpServer of its namespace.",
        "Correct spec.servers, or label a server; a policy written ahead of its servers is fine.",
    ),
    Cause.PATTERNS_MATCH_NOTHING: CauseExplanation(
        "True",
        "spec.openapi.include or exclude has patterns that no operation of the document matches, so these patterns "
        "have no effect. All other patterns are applied.",
        "Correct the patterns, which are about operation ids, tags and METHOD /path, in upper and lower case as the "
        "document has them; fairlead openapi check lists the operations.",
    ),
    Cause.HINTS_NOT_TRUSTED: CauseExplanation(
        "True",
        "Rules with annotations match other tools than the hints that servers list would, because these servers are "
        "not trusted with annotations: MCP's defaults apply to their tools (not read-only, destructive, not "
        "idempotent, open world).",
        "If you trust the hints of the servers that the message names, set trustAnnotations: true in their McpServers; "
        "else name the tools in the rules.",
    ),
    Cause.RULES_MATCH_NOTHING: CauseExplanation(
        "True",
        "Some rules match no tool; status.unmatchedRules names them.",
        "Correct the patterns, which are about names without prefix, or wait for the servers that have these tools.",
    ),
    Cause.PINS_MATCH_NOTHING: CauseExplanation(
        "True",
        "Some entries of pinned match no tool of the selected servers, so they keep nothing when tools are cut.",
        "Correct the entries, which are about names without prefix, or wait for the servers that have these tools.",
    ),
}

_CONFLICTED: Final = {
    Cause.PREFIX_TAKEN: CauseExplanation(
        "True",
        "Another server had this prefix first. This server is served at its own endpoint only.",
        "Set spec.prefix to a free prefix.",
    ),
    Cause.PREFIX_RESERVED: CauseExplanation(
        "True",
        "The prefix belongs to a server that was deleted. Until the reservation ends, only a server of the same "
        "namespace and name can have it. This server is served at its own endpoint only.",
        "Set spec.prefix to a free prefix; or have the namespace of the deleted server release the prefix: "
        "annotate any McpServer in OWNER with fairlead.dev/release-prefix=PREFIX. Where the namespace was deleted, "
        "create it and an McpServer in it for that, or wait for the end of the reservation.",
    ),
    Cause.DEFAULT_TAKEN: CauseExplanation(
        "True",
        "Another LatencyTier is the default already; this tier can only be selected by its name.",
        "Leave default: true on one tier only.",
    ),
    Cause.CONFLICTED: CauseExplanation(
        "True",
        "Another policy contradicts this policy about the same tools; status.conflicts names it. Deny wins.",
        "Change one of the two policies, unless this is intended.",
    ),
    Cause.WRITES_UNDONE: CauseExplanation(
        "True",
        "Another writer reverts an object of this server after each write of the operator, which therefore writes it "
        "less and less often.",
        "Stop the other writer from changing the object: a controller, a GitOps tool, or a second Fairlead "
        "installation.",
    ),
}

_RESOLVED_REFS: Final = {
    Cause.RESOLVED_REFS: CauseExplanation(
        "True", "Everything that the spec refers to exists and may be used, or it refers to nothing."
    ),
    Cause.SECRET_NOT_FOUND: CauseExplanation(
        "False", "The Secret does not exist in the namespace.", "Create it, or correct the name in the reference."
    ),
    Cause.SECRET_NOT_LABELLED: CauseExplanation(
        "False",
        "The Secret exists but is not marked as a credential for Fairlead, so it is neither sent to the server nor "
        "given to its pods.",
        "If it is meant for this server: kubectl label secret SECRET -n NAMESPACE fairlead.dev/credential=true",
    ),
    Cause.SECRET_KEY_MISSING: CauseExplanation(
        "False",
        "The Secret does not have the key, or the key has an empty value.",
        "Add the key, or name another key in secretRef.key.",
    ),
    Cause.SECRET_VALUE_INVALID: CauseExplanation(
        "False",
        "The value cannot be sent in an HTTP header, because it holds control characters; or it is not the client's "
        "secret or private key that spec.auth needs.",
        "Store the token or secret alone, without line breaks; for clientAuthentication: private_key_jwt, the private "
        "key as PEM or JWK.",
    ),
    Cause.VARIABLE_NOT_SET: CauseExplanation(
        "False",
        "An entry of an `mcp.json` names a variable that is not set in the environment of `fairlead up`, so the "
        "server is not run.",
        "Set the variable in the environment of the program that reads the file, and restart that program.",
    ),
    Cause.HOST_NOT_ALLOWED: CauseExplanation(
        "False",
        "The Secret's annotation fairlead.dev/hosts does not name this server's host, port and scheme, or that of the "
        "token endpoint for a client's secret, so the credential is not sent. An entry without a scheme means https.",
        "If the credential is meant for this host, add the entry that the message names to the annotation; prefer "
        "https.",
    ),
    Cause.SECRETS_NOT_READABLE: CauseExplanation(
        "False",
        "The operator may read Secrets in some namespaces only, and not in the namespace of the server.",
        "Have the namespace added to rbac.secretNamespaces of the chart, or declare the server in a namespace of "
        "that list.",
    ),
    Cause.SECRET_BEING_READ: CauseExplanation(
        "Unknown",
        "The Secret was created or labelled a moment ago, and the operator is reading it.",
        "Wait a second.",
    ),
    Cause.REFS_UNREADABLE: CauseExplanation(
        "Unknown",
        "The Secrets cannot be read at the moment; the last known values stay in use.",
        "Usually nothing: the operator tries again. If this persists, check the operator's permissions on Secrets.",
    ),
}

_PROGRAMMED: Final = {
    Cause.PROGRAMMED: CauseExplanation("True", "The server runs as the spec says, or there is nothing to run."),
    Cause.WAITING_FOR_REFS: CauseExplanation(
        "Unknown",
        "The pods are neither started nor changed, because a Secret that they need is missing or not permitted.",
        "Look at the condition ResolvedRefs: it names the Secret.",
    ),
    Cause.DEPLOYING: CauseExplanation(
        "Unknown", "The pods have been started and are not ready yet.", "Wait; without progress: DeploymentFailed."
    ),
    Cause.PROBE_FAILED: CauseExplanation(
        "Unknown",
        "The container runs, but one of its probes fails; the message quotes what Kubernetes reports about the probe.",
        "If the server starts slowly, wait; else correct the server, or the probe in spec.podTemplate.",
    ),
    Cause.POD_WARNING: CauseExplanation(
        "Unknown",
        "Kubernetes warns about the server's pod, which is not ready; the message quotes the last warning.",
        "Correct what the message names: a sandbox, a volume, a network, a limit in spec.resources. Kubernetes tries "
        "again.",
    ),
    Cause.INSTALLING: CauseExplanation(
        "Unknown", "The package is being downloaded and installed.", "Wait; the first start takes longest."
    ),
    Cause.STOPPED: CauseExplanation(
        "False", "The spec asks for 0 replicas.", "Set spec.replicas to 1 or more to start the server."
    ),
    Cause.DEPLOYMENT_FAILED: CauseExplanation(
        "False",
        "The pods do not become ready; the message has the details.",
        "Look at the events and the pods of the server's Deployment.",
    ),
    Cause.UNSCHEDULABLE: CauseExplanation(
        "False", "No node has room for the server's pod.", "Lower spec.resources, or make room on the nodes."
    ),
    Cause.VOLUME_UNAVAILABLE: CauseExplanation(
        "False",
        "No node can run the pod, because a volume that spec.podTemplate names is missing, is not provisioned, or is "
        "on a node that the pod cannot use.",
        "Look at the claim with kubectl describe pvc: create it, or name a StorageClass and node that can provide it.",
    ),
    Cause.NODES_EXCLUDED: CauseExplanation(
        "False",
        "No node can run the pod: no node fits the pod's nodeSelector, affinity or tolerations, or all such nodes "
        "are cordoned.",
        "Correct nodeSelector, affinity or tolerations in spec.podTemplate.spec, or the labels and taints of the "
        "nodes.",
    ),
    Cause.IMAGE_PULL_FAILED: CauseExplanation(
        "False",
        "The image cannot be pulled.",
        "Check name, tag and registry; for a private image set imagePullSecrets in spec.podTemplate.spec, and "
        "label the Secret fairlead.dev/credential=true.",
    ),
    Cause.CRASH_LOOPING: CauseExplanation(
        "False",
        "The server exits soon after each start; the message quotes the last output, if there is any.",
        f"Read the whole log: {pod_logs()}",
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
        "The package cannot be downloaded, because its registry cannot be reached. The download is tried again.",
        "Let the pods connect to the registry, or name a mirror in spec.env: UV_DEFAULT_INDEX or npm_config_registry.",
    ),
    Cause.APPLY_REFUSED: CauseExplanation(
        "False",
        "The API server rejected an object of this server.",
        "If the message names a field, correct it where the spec sets it, such as in spec.podTemplate. Else an "
        "admission policy or a quota rejects it: change the policy or the quota, or have the object exempted.",
    ),
    Cause.NAME_TAKEN: CauseExplanation(
        "False",
        "An object with the server's name already exists, and belongs to another owner, so the operator does not "
        "change it.",
        "Give the McpServer another name, or delete that object.",
    ),
    Cause.APPLY_FAILED: CauseExplanation(
        "Unknown", "Writing the objects of this server failed.", "Usually nothing: the operator tries again."
    ),
}

_PROGRAMMED_OR_VERIFIED: Final = {
    Cause.START_FAILED: CauseExplanation(
        "False",
        "The process could not be started, or exited at once.",
        f"Read the output of the process: {pod_logs()}",
    ),
    Cause.START_TIMEOUT: CauseExplanation(
        "False",
        "The process was started, or is being downloaded, and did not respond in time.",
        "Run the command by hand, to see whether it waits for input, or serves HTTP instead of stdio. Read the "
        f"output of the process: {pod_logs()}",
    ),
    Cause.COMMAND_NOT_FOUND: CauseExplanation(
        "False",
        "The program to start does not exist or is not executable.",
        "Correct spec.image.command, or use an image that has the program.",
    ),
    Cause.BACKING_OFF: CauseExplanation(
        "False",
        "The process exited several times, so its next start is delayed.",
        f"Read the output of the process: {pod_logs()}",
    ),
    Cause.SILENT: CauseExplanation(
        "Unknown",
        "The server was started, or was sent tools/list, about 10 s ago and has not responded.",
        "Wait, if a first start still downloads the server. Else run the command of the server by hand: it may wait "
        "for input, or serve HTTP instead of stdio. If the server has a url, check that it is the URL of an MCP "
        "endpoint.",
    ),
}

_CALIBRATED: Final = {
    Cause.CALIBRATED: CauseExplanation("True", "Every tool that may be probed has been probed."),
    Cause.NOT_CALIBRATED: CauseExplanation(
        "Unknown",
        "Nothing has been measured yet.",
        "Wait: the operator probes the tools that spec.calibration.probe allows.",
    ),
    Cause.CALIBRATION_DISABLED: CauseExplanation(
        "False",
        "The spec allows no probes; calls of agents are still measured.",
        "Nothing, if that is intended; else set spec.calibration.probe to Declared.",
    ),
    Cause.NOTHING_TO_PROBE: CauseExplanation(
        "False",
        "No tool may be probed; only calls of agents measure this server's tools.",
        "Nothing, if that is enough; else give probe.arguments for a tool in spec.tools, or allow probes of tools with "
        "readOnlyHint by spec.calibration.probe: ReadOnly and spec.trustAnnotations: true.",
    ),
    Cause.PROBES_FAILED: CauseExplanation(
        "False",
        "Probes got errors instead of results.",
        "Give working probe.arguments for these tools.",
    ),
}

_APPROVED: Final = {
    Cause.APPROVED: CauseExplanation("True", "The server lists the approved or first-listed definitions."),
    Cause.CHANGES_HELD_BACK: CauseExplanation(
        "False",
        "The server lists definitions that are new or differ from the approved definitions. Only the approved "
        "definitions are served. The message names some of the new definitions, and the hash of all of them.",
        "Look at them (fairlead diff SERVER), then approve (fairlead approve SERVER, or the hash in "
        "spec.approval.hash) or have the server corrected.",
    ),
}

_DEFINITIONS_CLEAN: Final = {
    Cause.DEFINITIONS_CLEAN: CauseExplanation(
        "True", "No text that the server lists contains hidden characters or instructions to the model."
    ),
    Cause.HIDDEN_CHARACTERS: CauseExplanation(
        "False",
        "Texts of the server contain characters that people do not see: invisible characters, marks that reverse the "
        "text direction, escape sequences, or blanks that move text out of view. The texts are served unchanged.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
    Cause.SPEAKS_TO_THE_MODEL: CauseExplanation(
        "False",
        "Texts of the server contain instructions for a model that the user is not meant to read, such as tags of a "
        "prompt or orders to ignore instructions. The texts are served unchanged.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
    Cause.SUSPICIOUS_DEFINITIONS: CauseExplanation(
        "False",
        "Texts of the server contain hidden characters, and instructions to the model. The texts are served unchanged.",
        "Read the texts that the message names; if they are not harmless, set enabled: false for the tool, or remove "
        "the server.",
    ),
}

_AUTHORIZED: Final = {
    Cause.AUTHORIZED: CauseExplanation("True", "No gateway reports that grants for calls of the server fail."),
    Cause.CALLS_NOT_GRANTED: CauseExplanation(
        "False",
        "A gateway gets no access token for anybody's calls of the server: the issuer does not take the client or its "
        "grant, or its metadata cannot be used. Lists may work all the same. The condition ends with the first token, "
        "or 10 minutes after the last call that got none.",
        "Correct the client, its Secret or the issuer in spec.auth, or register the client's grant at the issuer.",
    ),
    Cause.CALLS_ISSUER_UNREACHABLE: CauseExplanation(
        "False",
        "A gateway cannot connect to the authorization server in spec.auth, so calls of the server get no access "
        "token. Lists may work all the same. The condition ends with the first token, or 10 minutes after the last "
        "call that got none.",
        "Look at the authorization server, and at firewalls and network policies between the gateway and it.",
    ),
}

_NETWORK_POLICY_ENFORCED: Final = {
    Cause.NETWORK_POLICY_ENFORCED: CauseExplanation("True", "NetworkPolicies blocked the probe in both directions."),
    Cause.NETWORK_POLICY_NOT_ENFORCED: CauseExplanation(
        "False",
        "The API server accepts NetworkPolicies, but nothing enforces them: a probe connected although no policy "
        "allows it. Any pod of the cluster can connect to the server's pods, or spec.network.egress has no effect; the "
        "message says which.",
        "Install a network plugin that enforces NetworkPolicies, such as Calico or Cilium. Until then, only let people "
        "run pods in the cluster who may call all of the MCP servers there.",
    ),
    Cause.NETWORK_POLICY_NOT_PROBED: CauseExplanation(
        "Unknown",
        "The probe had no result; the message says why.",
        "Correct what the message names. The probe runs again a day after the last one, or minutes after the ConfigMap "
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
        **_AUTHORIZED,
        **_CALIBRATED,
        **_APPROVED,
        **_DEFINITIONS_CLEAN,
        **_NETWORK_POLICY_ENFORCED,
    }
)
"""Explanation of every cause."""

# the possible causes by condition type
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
        ConditionType.AUTHORIZED: (*_AUTHORIZED,),
        ConditionType.CALIBRATED: (*_CALIBRATED,),
        ConditionType.APPROVED: (*_APPROVED,),
        ConditionType.DEFINITIONS_CLEAN: (*_DEFINITIONS_CLEAN,),
        ConditionType.NETWORK_POLICY_ENFORCED: (*_NETWORK_POLICY_ENFORCED,),
    }
)
"""Possible causes of each condition. `Ready` has the cause of the condition that it summarizes."""
