"""Settings of the grants that persons made for servers."""

from __future__ import annotations

from pathlib import Path

from fairlead_api.environment import EnvironmentSettings, prefixed


class GrantSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("grants_")):
    """Grants that persons made for servers with `auth: userConsent`."""

    directory: Path | None = None
    """Folder that stores the grants of one machine, sealed with a key of its keyring, or with a key file in the folder;
    gateways of the machine may share it. `fairlead up` sets it.
    """
