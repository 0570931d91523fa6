"""Reads OpenAPI documents from ConfigMaps of the servers' namespaces."""

from __future__ import annotations

import base64

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, NotFound
from fairlead_kube.resources import CONFIG_MAPS
from fairlead_operator.openapi.api_source import ConfigMapLocation, DocumentLocation
from fairlead_operator.openapi.document_content import DocumentUnusable, decompress, document_key


class ConfigMapDocuments:
    """Reads the OpenAPI documents of servers from ConfigMaps."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def read(self, location: DocumentLocation) -> bytes:
        """The document at a location. Raises DocumentUnusable."""
        if not isinstance(location, ConfigMapLocation):
            raise DocumentUnusable(f"{location} cannot be read on a cluster: use openapi.url or openapi.configMapRef")
        try:
            config_map = await self._kube.get(CONFIG_MAPS, location.namespace, location.name)
        except NotFound as error:
            text = f"the namespace has no ConfigMap {location.name}: create it, or correct openapi.configMapRef"
            raise DocumentUnusable(text) from error
        except ApiError as error:
            raise DocumentUnusable(f"{location} cannot be read: {error}") from error
        return _document(location, config_map)


def _document(location: ConfigMapLocation, config_map: Json) -> bytes:
    texts: Json = config_map.get("data") or {}
    binaries: Json = config_map.get("binaryData") or {}
    key = document_key(location, [*texts, *binaries])
    if key in texts:
        return str(texts[key]).encode()
    return decompress(base64.b64decode(binaries[key]), location)
