"""Settings of authentication."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import CommaSeparated, EnvironmentSettings
from fairlead_api.setting_types import ObjectName, ObjectNames, PublicUrl


class MadeKeySettings(EnvironmentSettings, frozen=True, kw_only=True):
    """API keys that principals create for themselves."""

    makers: CommaSeparated = field(default=(), name="key_makers")
    """Groups whose members may create API keys for themselves, over REST and in the console, written as in
    `admin_groups`. `*` stands for everybody with an API key or a token of an issuer. By default, nobody may.
    """
    file: Path | None = field(default=None, name="made_keys")
    """File of created keys, for gateways outside of Kubernetes. Only one gateway may write it."""
    secret: ObjectName = field(default="", name="made_keys_secret")
    """Secret of created keys in the release's namespace, labelled `fairlead.dev/api-keys: "true"`. It has to exist, and
    the gateway needs the rights to get, list, watch and patch it.
    """
    days: Annotated[int, Meta(ge=1, le=3650)] = field(default=90, name="made_key_days")
    """Longest lifetime of a created key, in days."""
    each: Annotated[int, Meta(ge=1, le=1000)] = field(default=10, name="made_keys_each")
    """Most created keys of one principal."""


class IdentitySettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Authentication of clients."""

    anonymous: Literal["allow", "deny"] | None = None
    """Whether requests without a credential are accepted. Default: `allow` outside of Kubernetes if no other
    authentication is configured, else `deny`."""
    api_keys: Path | None = None
    """File of API keys, as written by `fairlead keys`."""
    api_key_secrets: ObjectNames = ()
    """Names of Secrets of API keys in the namespace of the release, labelled `fairlead.dev/api-keys: "true"`."""
    file: Path | None = field(default=None, name="identity")
    """YAML file that configures accepted tokens: `issuers`, `scopes`, `serviceAccounts`."""
    admin_groups: CommaSeparated = ()
    """Groups of administrators, who may for example query the permissions of others (`/v1/access`). With several
    issuers, each group needs its issuer, by its name in the `identity` file or its URL: `corp#admins`.
    """
    made_keys: MadeKeySettings = MadeKeySettings()
    gateway_approvals: bool = False
    """Whether administrators may approve definitions of servers with `pin: true` over REST and in the console. The
    operator needs the same setting, as it applies the approvals.
    """
    public_url: PublicUrl = ""
    """URL of the gateway for clients without `/mcp`, such as `https://tools.example.com`; the audience of tokens."""
