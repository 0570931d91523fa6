"""Creates authenticators from settings."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead_api.bad_setting import BadSetting
from fairlead_app.authorization import AuthorizationTrust, authorization_trust
from fairlead_app.console_client import console_client
from fairlead_app.settings import Settings
from fairlead_gateway.identity.audiences import AcceptedAudiences
from fairlead_gateway.identity.authenticator import Authenticator
from fairlead_gateway.identity.console_client import ConsoleSignIn
from fairlead_gateway.identity.issuers_file import CredentialIssuers, load_credential_issuers
from fairlead_gateway.identity.key_authenticator import ApiKeys, KeySource
from fairlead_gateway.identity.key_format import BadKeys, KeyDocument
from fairlead_gateway.identity.keys_in_file import KeyFile
from fairlead_gateway.identity.made_keys import EVERYBODY, FileKeyStore, KeyStore, MadeKeys
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.identity.settings import IdentitySettings, MadeKeySettings

if TYPE_CHECKING:
    from fairlead_gateway.identity.jwt_authenticator import Tokens
    from fairlead_kube.client import Kube

log = logging.getLogger("fairlead_gateway")


NO_ISSUERS: Final = Issuers()
NO_AUDIENCES: Final = AcceptedAudiences()


class Trust(msgspec.Struct, frozen=True):
    """Authenticators of clients, and the OAuth metadata for clients."""

    authenticators: tuple[Authenticator, ...] = ()
    issuers: tuple[str, ...] = ()
    """URLs of the issuers from which clients get tokens."""
    scopes: tuple[str, ...] = ()
    """OAuth scopes that a token must have."""
    names: Issuers = NO_ISSUERS
    """Issuers of the names of agents and groups."""
    sign_in: ConsoleSignIn | None = None
    """Sign-in to the console by OpenID Connect; None if it is not configured."""
    made_keys: MadeKeys | None = None
    """API keys that users create for themselves; None if nobody may create any."""
    console_token: str = ""
    """Token with which a local browser can sign in to the console once; empty if there is none."""
    audiences: AcceptedAudiences = NO_AUDIENCES
    """Audiences of accepted tokens."""
    authorization: AuthorizationTrust | None = None
    """The authorization server in front of the issuers; None if it is not configured."""


def build_trust(settings: Settings, kube: Kube | None = None) -> Trust:
    """Create the authenticators. `kube` is the Kubernetes client, or None off a cluster. Raises BadSetting."""
    identity, namespace = settings.identity, settings.installation.release_namespace
    credential_issuers = load_credential_issuers(identity.file)
    names = Issuers(
        tokens=tuple(issuer.names for issuer in credential_issuers.issuers),
        api_keys=identity.api_keys is not None or bool(identity.api_key_secrets),
        service_accounts=credential_issuers.service_accounts is not None,
    )
    names.groups("FAIRLEAD_ADMIN_GROUPS", identity.admin_groups)
    keys = _keys(identity, namespace, kube, names)
    if keys is not None:
        names = msgspec.structs.replace(names, is_name_of_key=keys.has_name)
    client = console_client(settings.console, identity, credential_issuers)
    tokens = _tokens(identity, credential_issuers, names)
    optional_authenticators = [keys, tokens, _service_accounts(identity, credential_issuers, kube)]
    issuers = tuple(issuer.issuer for issuer in credential_issuers.issuers)
    authenticators = tuple(authenticator for authenticator in optional_authenticators if authenticator is not None)
    if not authenticators and identity.anonymous == "deny":
        log.warning(
            "No client can authenticate: set FAIRLEAD_ANONYMOUS=allow to serve anonymous clients, or configure an "
            "authenticator with FAIRLEAD_API_KEYS, FAIRLEAD_API_KEY_SECRETS or FAIRLEAD_IDENTITY"
        )
    sign_in = None if client is None or tokens is None else ConsoleSignIn(client, tokens)
    made_keys = _made_keys(identity.made_keys, namespace, kube, names, keys)
    authorization = authorization_trust(identity, credential_issuers, names, tokens, kube)
    return Trust(
        authenticators,
        # clients are told only the authorization server, but a token of another issuer is accepted too
        issuers if authorization is None else (authorization.issuer,),
        credential_issuers.scopes,
        names,
        sign_in,
        made_keys,
        audiences=_audiences(identity, credential_issuers),
        authorization=authorization,
    )


def _keys(identity: IdentitySettings, namespace: str, kube: Kube | None, names: Issuers) -> ApiKeys | None:
    sources: list[KeySource] = []
    made_keys = identity.made_keys
    documents: dict[str, KeyDocument] = {}
    if identity.api_keys is not None:
        file = KeyFile(identity.api_keys)
        try:
            documents[file.name] = file.load()
        except OSError as error:
            raise BadSetting(
                f"the API keys of FAIRLEAD_API_KEYS in {identity.api_keys} cannot be read: {error}; create them with "
                "`fairlead keys create`"
            ) from error
        except BadKeys as error:
            raise BadSetting(
                f"the API keys of FAIRLEAD_API_KEYS in {identity.api_keys} cannot be used: {error}"
            ) from error
        sources.append(file)
    if identity.api_key_secrets:
        if kube is None:
            raise BadSetting(
                "FAIRLEAD_API_KEY_SECRETS requires a cluster: without one, set FAIRLEAD_API_KEYS to a file"
            )
        from fairlead_gateway.identity.keys_in_secret import KeySecret

        sources += [KeySecret(kube, namespace, name) for name in identity.api_key_secrets]
    if made_keys.makers and made_keys.file is not None:
        user_keys = KeyFile(made_keys.file)
        try:
            documents[user_keys.name] = user_keys.load()
        except FileNotFoundError:
            pass  # the file is created with the first key
        except (OSError, BadKeys) as error:
            raise BadSetting(f"FAIRLEAD_MADE_KEYS is {made_keys.file}, which cannot be used: {error}") from error
        sources.append(user_keys)
    elif made_keys.makers and made_keys.secret and kube is not None:
        from fairlead_gateway.identity.keys_in_secret import KeySecret

        sources.append(KeySecret(kube, namespace, made_keys.secret))
    if not sources:
        return None
    keys = ApiKeys(sources, time.time, names)
    for name, document in documents.items():
        keys.take_document(name, document)  # so that the first requests need not wait for the file to be read again
    return keys


def _made_keys(
    settings: MadeKeySettings, namespace: str, kube: Kube | None, names: Issuers, keys: ApiKeys | None
) -> MadeKeys | None:
    """The API keys that users create for themselves; None if nobody may create any. Raises BadSetting."""
    if not settings.makers:
        return None
    store: KeyStore
    if settings.file is not None:
        assert keys is not None  # `_keys` has made this file one of the sources of `keys`
        store = FileKeyStore(settings.file, partial(keys.take_document, KeyFile(settings.file).name))
    elif settings.secret and kube is not None:
        from fairlead_gateway.identity.keys_in_secret import SecretKeyStore

        store = SecretKeyStore(kube, namespace, settings.secret)
    else:
        raise BadSetting(
            "FAIRLEAD_KEY_MAKERS is set, but keys cannot be stored: set FAIRLEAD_MADE_KEYS to a file, or on a cluster "
            "FAIRLEAD_MADE_KEYS_SECRET to the name of a Secret"
        )
    groups = names.groups("FAIRLEAD_KEY_MAKERS", (name for name in settings.makers if name != EVERYBODY))
    everybody = EVERYBODY in settings.makers
    return MadeKeys(store, groups, everybody=everybody, days=settings.days, each=settings.each)


def _audiences(identity: IdentitySettings, credential_issuers: CredentialIssuers) -> AcceptedAudiences:
    """Audiences of the tokens that the authenticators accept."""
    names = {audience for issuer in credential_issuers.issuers for audience in issuer.audiences}
    if credential_issuers.service_accounts is not None:
        names.update(credential_issuers.service_accounts.audiences)
    accepts_public_url = credential_issuers.authorization_server is not None or any(
        not issuer.audiences for issuer in credential_issuers.issuers
    )
    return AcceptedAudiences(frozenset(names), identity.public_url if accepts_public_url else "")


def _tokens(identity: IdentitySettings, credential_issuers: CredentialIssuers, names: Issuers) -> Tokens | None:
    if not credential_issuers.issuers:
        return None
    without_audience = [issuer.issuer for issuer in credential_issuers.issuers if not issuer.audiences]
    if without_audience and not identity.public_url:
        raise BadSetting(
            f"tokens of {without_audience[0]} need this gateway as their audience: set FAIRLEAD_PUBLIC_URL to its "
            f"public URL, or name audiences in {identity.file}"
        )
    # imported here, because the import of the library takes a second
    from fairlead_gateway.identity.jwt_authenticator import Tokens

    return Tokens(
        credential_issuers.issuers,
        address=identity.public_url,
        scopes=credential_issuers.scopes,
        issuer_names=names,
        now=time.time,
        clock=time.monotonic,
    )


def _service_accounts(
    identity: IdentitySettings, credential_issuers: CredentialIssuers, kube: Kube | None
) -> Authenticator | None:
    service_accounts = credential_issuers.service_accounts
    if service_accounts is None:
        return None
    if kube is None:
        raise BadSetting(f"{identity.file}: serviceAccounts requires a cluster: remove it, or run the gateway in one")
    from fairlead_gateway.identity.serviceaccounts import ServiceAccountTokens

    return ServiceAccountTokens(kube, service_accounts.audiences, service_accounts.seconds)
