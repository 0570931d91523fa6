"""Creates the store of grants that persons made for servers."""

from __future__ import annotations

from fairlead_gateway.grants.folder_store import FolderGrantStore
from fairlead_gateway.grants.settings import GrantSettings
from fairlead_gateway.grants.store import ClosableGrantStore


def grant_store(settings: GrantSettings) -> ClosableGrantStore | None:
    """The store of the settings; None if they name none, so that persons cannot make grants at this gateway."""
    return None if settings.directory is None else FolderGrantStore(settings.directory)
