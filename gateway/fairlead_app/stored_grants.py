"""Creates the store of the grants that users made for servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlead_api.bad_setting import BadSetting
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.grants.folder_store import FolderGrantStore
from fairlead_gateway.grants.sealing_keys import BadSealingKeys, SealingKey, read_sealing_keys
from fairlead_gateway.grants.settings import GrantSettings
from fairlead_gateway.grants.store import ClosableGrantStore

if TYPE_CHECKING:
    from fairlead_kube.client import Kube


def grant_store(
    settings: GrantSettings, redis: RedisSettings, kube: Kube | None = None, namespace: str = ""
) -> ClosableGrantStore | None:
    """Create the configured store. None if no store is configured, so that users cannot make grants at this gateway.
    `kube` is the client of the cluster, if there is one; `namespace` is the namespace of the release. Raises
    BadSetting.
    """
    if settings.store == "none":
        return None if settings.directory is None else FolderGrantStore(settings.directory)
    if settings.directory is not None:
        raise BadSetting("FAIRLEAD_GRANTS and FAIRLEAD_GRANTS_DIRECTORY name two stores of grants: set one of them")
    keys = sealing_keys(settings)
    if settings.store == "redis":
        return _redis_store(redis, keys)
    if kube is None or not settings.secret:
        raise BadSetting(
            "FAIRLEAD_GRANTS is secrets, which needs a cluster and FAIRLEAD_GRANTS_SECRET, the name of the Secrets"
        )
    from fairlead_gateway.grants.secret_store import SecretGrantStore  # needs the Kubernetes client

    return SecretGrantStore(kube, namespace, settings.secret, keys)


def _redis_store(redis: RedisSettings, keys: Sequence[SealingKey]) -> ClosableGrantStore:
    if not redis.url:
        raise BadSetting("FAIRLEAD_GRANTS is redis, but there is none: set FAIRLEAD_REDIS to its URL")
    # imported only if configured, because the import of the Redis client takes a tenth of a second
    from fairlead_gateway.grants.redis_store import RedisGrantStore
    from fairlead_gateway.redis_client import BadUrl

    try:
        return RedisGrantStore(redis, keys)
    except BadUrl as error:
        raise BadSetting(f"FAIRLEAD_REDIS cannot be used: {error}") from error


def sealing_keys(settings: GrantSettings) -> tuple[SealingKey, ...]:
    """Keys of a shared store. Raises BadSetting, which quotes no key."""
    name, text = "FAIRLEAD_GRANT_KEYS", settings.keys
    if settings.keys_file is not None:
        name = "FAIRLEAD_GRANT_KEYS_FILE"
        try:
            text = settings.keys_file.read_text("ascii", "replace")
        except OSError as error:
            raise BadSetting(f"{name} is {settings.keys_file}, which cannot be read: {error.strerror}") from error
    try:
        return read_sealing_keys(text)
    except BadSealingKeys as error:
        raise BadSetting(f"{name} cannot be used: {error}") from error
