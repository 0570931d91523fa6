"""Settings of who may call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import CommaSeparated, EnvironmentSettings
from fairlead_api.setting_types import HttpUrl, ObjectName, ObjectNames


class MadeKeySettings(EnvironmentSettings, frozen=True, kw_only=True):
    """API keys that people make for themselves."""

    makers: CommaSeparated = field(default=(), name="key_makers")
    """Groups whose members may make API keys for themselves, over REST and in the console, written as those of
    `admin_groups`; `*` is everybody with an API key or a token of an issuer. Nobody by default.
    """
    file: Path | None = field(default=None, name="made_keys")
    """File that such keys are kept in, off a cluster. One gateway alone writes it."""
    secret: ObjectName = field(default="", name="made_keys_secret")
    """Secret of the release's namespace that such keys are kept in, labelled `fairlead.dev/api-keys: "true"`. It has to
    be there, and the gateway to have the rights to get, list, watch and patch it.
    """
    days: Annotated[int, Meta(ge=1, le=3650)] = field(default=90, name="made_key_days")
    """Longest life of such a key, in days."""
    each: Annotated[int, Meta(ge=1, le=1000)] = field(default=10, name="made_keys_each")
    """Such keys that one principal may have."""


class IdentitySettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Identity: clients that are let in, and those who vouch for them."""

    anonymous: Literal["allow", "deny"] | None = None
    """Whether requests without a credential are let in. By default where nothing else is set up, off a cluster."""
    api_keys: Path | None = None
    """File of API keys, as `fairlead keys` writes it."""
    api_key_secrets: ObjectNames = ()
    """Names of Secrets of API keys in the namespace of the release, labelled `fairlead.dev/api-keys: "true"`."""
    file: Path | None = field(default=None, name="identity")
    """YAML file about whose tokens are taken: `issuers`, `scopes`, `serviceAccounts`."""
    admin_groups: CommaSeparated = ()
    """Groups of those who may ask what others may do (`/v1/access`). With several issuers, each with its own:
    `corp#admins`, by the issuer's name in the `identity` file or its URL.
    """
    made_keys: MadeKeySettings = MadeKeySettings()
    gateway_approvals: bool = False
    """Whether those may approve definitions of servers with `pin: true` over REST and in the console. As for the
    operator, which puts them in force.
    """
    public_url: HttpUrl = ""
    """How clients reach the gateway, such as `https://tools.example.com`: tokens are made for it."""
