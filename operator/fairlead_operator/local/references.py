"""Resolves a server's references to its environment and headers, outside of a cluster. Pure.

Secrets and ConfigMaps are looked up in the manifests. The same rules apply as in a cluster: a Secret for `auth` must
have the credential label, and is sent only to the hosts in its annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

import msgspec
from msgspec import structs

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import Credential, SentCredential
from fairlead_api.load import ManifestProblem
from fairlead_api.meta import ANNOTATION_HOSTS, LABEL_CREDENTIAL
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import Auth, CredentialSource, DiscoveryAuth, EnvFromSource, EnvVar
from fairlead_mcp.credential_hosts import hosts_allow, origin
from fairlead_mcp.surroundings import POINTERS, inherited_variables
from fairlead_operator.local.inventory import Contents, DeclaredServer
from fairlead_operator.ports import ConditionVerdict, OperatorCredential, ResolvedCredential
from fairlead_operator.server.presented_credentials import (
    PresentedCredential,
    ReferencedSecret,
    UnusableSecret,
    call_oauth_settings,
    present_client,
    present_header,
    present_key,
    resource_secret_of,
)
from fairlead_operator.server.scheme_credentials import scheme_credentials, sent_credential
from fairlead_operator.server.secret_arguments import argument_value, secret_arguments

RESOLVED: Final = ConditionVerdict(True, Cause.RESOLVED_REFS, "all referenced Secrets exist and may be used")
MAX_NAMED: Final = 3
"""Maximum number of servers that a message names."""


class Unresolved(Exception):
    """A referenced Secret or ConfigMap does not exist or may not be used."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def resolve(declaration: DeclaredServer, contents: Contents) -> ResolvedCredential:
    """The credential of a server, merged from its spec, its references, and its client configuration, in this order.
    The value of a server without a credential is empty, not None.
    """
    auth, discovery_auth = declaration.server.spec.auth, declaration.server.spec.discovery.auth
    try:
        env = _environment(declaration, contents)
        call_credential = PresentedCredential() if auth is None else _present(declaration, contents, auth)
        list_credential = (
            PresentedCredential() if discovery_auth is None else _present(declaration, contents, discovery_auth)
        )
        arguments, schemes = _arguments(declaration, contents), _schemes(declaration, contents)
    except (Unresolved, UnusableSecret) as error:
        return ResolvedCredential(ConditionVerdict(False, error.cause, str(error)), value=Credential())
    spec_credential, client_credential = call_credential.value or Credential(), declaration.credential
    value = structs.replace(
        spec_credential,
        headers={**spec_credential.headers, **client_credential.headers},
        env={**env, **client_credential.env},
    )
    value = structs.replace(value, arguments=arguments, schemes=schemes)
    if call_credential.oauth is None:
        return ResolvedCredential(RESOLVED, value=value)
    oauth = call_oauth_settings(call_credential, declaration.server.spec, first_grant=True)
    if declaration.server.spec.starts_with_keys:  # the operator's process has only `env`, and no user's key
        return ResolvedCredential(RESOLVED, value=value, oauth=oauth)
    operator_source = list_credential if auth is not None and auth.of_caller is not None else call_credential
    operator = _with_headers(operator_source.operator_credential, client_credential.headers)
    return ResolvedCredential(RESOLVED, value=value, oauth=oauth, own_credential=operator)


def _with_headers(operator: OperatorCredential, headers: Mapping[str, str]) -> OperatorCredential:
    """The operator's credential with the headers of a client configuration, which are sent in addition to a token."""
    if not headers:
        return operator
    value = operator.value or Credential()
    value = structs.replace(value, headers={**value.headers, **headers})
    return OperatorCredential(value, sha256(operator.hash.encode(), msgspec.json.encode(sorted(headers.items())))[:16])


def _arguments(declaration: DeclaredServer, contents: Contents) -> dict[str, dict[str, str]]:
    """The values of arguments that are in Secrets. Raises Unresolved, UnusableSecret."""
    values: dict[str, dict[str, str]] = {}
    for tool, argument, source in secret_arguments(declaration.server.spec):
        secret, spec = _find_secret(declaration, contents, source), declaration.server.spec
        values.setdefault(tool, {})[argument] = argument_value(secret, spec, spec.remote_url or "")
    return values


def _schemes(declaration: DeclaredServer, contents: Contents) -> dict[str, SentCredential]:
    """The credentials of security schemes. Raises Unresolved, UnusableSecret."""
    url, schemes = declaration.server.spec.remote_url or "", {}
    for name, scheme in scheme_credentials(declaration.server.spec).items():
        source = scheme.secret_ref
        secret = None if source is None else _find_secret(declaration, contents, source)
        schemes[name] = sent_credential(scheme, secret, url)
    return schemes


def inherited_environment(declaration: DeclaredServer, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that a server's command inherits in addition to those that every child process inherits."""
    if not declaration.server.spec.is_started:
        return {}
    command = declaration.server.spec.command or [""]
    return inherited_variables(command[0], environ)


def find_withheld_variables(contents: Contents, environ: Mapping[str, str]) -> Iterator[ManifestProblem]:
    """A problem for each file with servers that lack a variable of `POINTERS` that is set in this environment.

    Such a variable tells tools what to work on. The message contains its name, never its value.
    """
    missing_by_file: dict[str, dict[str, list[str]]] = {}
    for declaration in contents.servers.values():
        if missing := _missing_pointers(declaration, contents, environ):
            missing_by_file.setdefault(declaration.origin.rpartition(":")[0], {})[declaration.key.name] = missing
    for file, servers in missing_by_file.items():
        names = [name for name in POINTERS if name in chain.from_iterable(servers.values())]
        fact = f"{', '.join(names)} of this environment {'is' if len(names) == 1 else 'are'} not passed to"
        server_names = ", ".join([*servers][:MAX_NAMED]) + (", …" if len(servers) > MAX_NAMED else "")
        advice = f"if a server's tools need it, set {names[0]} in the server's env to ${{{names[0]}}}"
        yield ManifestProblem(file, 0, "", f"{fact} {server_names}; {advice}")


def _missing_pointers(declaration: DeclaredServer, contents: Contents, environ: Mapping[str, str]) -> list[str]:
    """Variables of `POINTERS` that a server's process lacks; empty for a server that is not started here."""
    pointers = [name for name in POINTERS if environ.get(name)]
    if not pointers or not declaration.server.spec.is_started:
        return []
    credential = resolve(declaration, contents)
    passed_names = inherited_environment(declaration, environ).keys() | (credential.value or Credential()).env.keys()
    return [name for name in pointers if name not in passed_names] if credential.verdict.ok else []


def _environment(declaration: DeclaredServer, contents: Contents) -> dict[str, str]:
    """The environment variables from `env` and `envFrom`, with resolved references. Raises Unresolved."""
    spec, namespace = declaration.server.spec, declaration.key.namespace
    env: dict[str, str] = {}
    for source in spec.env_from:
        env |= _variables_from(source, namespace, contents)
    for variable in spec.env:
        value = _variable(variable, namespace, contents)
        if value is not None:
            env[variable.name] = value
    return env


def _variables_from(source: EnvFromSource, namespace: str, contents: Contents) -> dict[str, str]:
    """The variables of one entry of `envFrom`. Raises Unresolved."""
    is_secret = source.secret_ref is not None
    reference = source.secret_ref or source.config_map_ref
    if reference is None:
        return {}
    values = (contents.secrets if is_secret else contents.config_maps).get((namespace, reference.name))
    if values is None:
        if reference.optional:
            return {}
        raise _missing("Secret" if is_secret else "ConfigMap", reference.name)
    return {f"{source.prefix or ''}{name}": value for name, value in values.data.items()}


def _variable(variable: EnvVar, namespace: str, contents: Contents) -> str | None:
    """Value of one entry of `env`; None for an absent optional reference. Raises Unresolved."""
    source = variable.value_from
    if source is None:
        return variable.value or ""
    selector = source.secret_key_ref or source.config_map_key_ref
    is_secret = source.secret_key_ref is not None
    if selector is None:
        raise Unresolved(
            Cause.NOT_SUPPORTED_HERE,
            f"env {variable.name} refers to a field of its pod, but outside of a cluster there are no pods",
        )
    values = (contents.secrets if is_secret else contents.config_maps).get((namespace, selector.name))
    value = None if values is None else values.data.get(selector.key)
    if value is None and not selector.optional:
        kind = "Secret" if is_secret else "ConfigMap"
        if values is None:
            raise _missing(kind, selector.name)
        raise Unresolved(Cause.SECRET_KEY_MISSING, f"{kind} {selector.name} has no key {selector.key}")
    return value


def _present(declaration: DeclaredServer, contents: Contents, auth: Auth | DiscoveryAuth) -> PresentedCredential:
    """Header or client that `auth` presents to the server. Raises Unresolved, UnusableSecret."""
    if auth.grant is not None:
        source = auth.grant.secret_ref
        resource_source = resource_secret_of(auth.grant)
        secret = None if source is None else _find_secret(declaration, contents, source)
        resource_secret = None if resource_source is None else _find_secret(declaration, contents, resource_source)
        return present_client(auth.grant, secret, resource_secret)
    if isinstance(auth, Auth) and auth.user_key is not None:
        return present_key(auth.user_key)
    if auth.static_value is None:  # possible only in a model that was not validated
        return PresentedCredential()
    reference = _find_secret(declaration, contents, auth.static_value.secret_ref)
    url = declaration.server.spec.remote_url or ""
    if not hosts_allow(reference.hosts, url):
        raise Unresolved(
            Cause.HOST_NOT_ALLOWED,
            f"the annotation {ANNOTATION_HOSTS} of Secret {reference.name} does not name {origin(url)}",
        )
    value = reference.value.decode().strip()
    if not value:
        raise Unresolved(Cause.SECRET_KEY_MISSING, f"Secret {reference.name} has no value under {reference.key}")
    if not value.isprintable():
        raise Unresolved(Cause.SECRET_VALUE_INVALID, f"{reference.label} cannot be sent in an HTTP header")
    return present_header(auth.static_value, value, reference.version)


def _find_secret(declaration: DeclaredServer, contents: Contents, source: CredentialSource) -> ReferencedSecret:
    """The referenced key of a Secret with the credential label. Raises Unresolved."""
    own_secret = declaration.secret
    is_own = own_secret is not None and own_secret.name == source.name
    secret = own_secret if is_own else contents.secrets.get((declaration.key.namespace, source.name))
    if secret is None:
        raise _missing("Secret", source.name)
    if secret.labels.get(LABEL_CREDENTIAL) != "true":
        raise Unresolved(
            Cause.SECRET_NOT_LABELLED,
            f'Secret {source.name} lacks the label of credentials: add {LABEL_CREDENTIAL}: "true"',
        )
    value = secret.data.get(source.key, "").encode()
    hosts = secret.annotations.get(ANNOTATION_HOSTS)
    return ReferencedSecret("" if secret is own_secret else source.name, source.key, value, hosts, sha256(value))


def _missing(kind: str, name: str) -> Unresolved:
    return Unresolved(
        Cause.SECRET_NOT_FOUND, f"no manifest declares a {kind} with the name {name} in the server's namespace"
    )
