"""Settings of the grants that users made for servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import ObjectName


class GrantSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("grants_")):
    """Grants that users made for servers with `auth: userConsent` or `auth: userKey`."""

    store: Literal["none", "redis", "secrets"] = field(default="none", name="grants")
    """Store of grants that all replicas share: `redis` for the Redis of `redis`, which must be persistent, or `secrets`
    for Secrets of the cluster. Both need `grant_keys`.
    """
    secret: ObjectName = ""
    """Name of the Secrets with grants, without their number (`-0` to `-15`), in the release's namespace; they have to
    exist. The chart sets it.
    """
    directory: Path | None = None
    """Folder that stores the grants of one machine, sealed with a key of its keyring, or with a key file in the folder;
    gateways of the machine may share it. `fairlead up` sets it.
    """
    unused_days: Annotated[int, Meta(ge=0)] = 180
    """Days without a call of the person after which a grant ends; 0 for never. Reading lists with a grant does not
    count as a call.
    """
    keys: str = field(default="", name="grant_keys")
    """Keys that seal grants in a shared store: `ID:KEY`, separated by commas, with 32 random bytes as base64 (`openssl
    rand -base64 32`) and an id of your choice. The first key seals, and all keys open.
    """
    keys_file: Path | None = field(default=None, name="grant_keys_file")
    """File with the keys, instead of `grant_keys`."""
