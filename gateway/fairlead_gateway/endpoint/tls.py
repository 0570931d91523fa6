"""Server certificate of the listener, reloaded when its files change.

Only new connections get the new certificate. While certificate and key do not match, because only one of the files was
renewed so far, the old certificate and key stay in use.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

from fairlead_gateway.file_changes import FileChanges

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
"""Timeout of a TLS handshake."""


class BadCertificate(ValueError):
    """Invalid certificate files. The message names the files, and says what is invalid."""


class Certificates:
    """TLS context of a listener, with the certificate in `cert` and the key in `key` (by default also in `cert`).

    With `client_ca`, clients need a certificate issued by one of the CAs in this file. The file is read only once. The
    constructor raises BadCertificate.
    """

    def __init__(self, cert: Path, key: Path | None = None, client_ca: Path | None = None) -> None:
        self._cert = cert
        self._key = key or cert
        self._client_ca = client_ca
        self._changes = [FileChanges(file) for file in (self._cert, self._key)]
        self._check_changes()
        self.context = self._load()

    def reload_if_changed(self) -> None:
        """Reload the files if they have changed. Must be called about once a second."""
        if not self._check_changes():
            return
        try:
            # first load the files into another context, which raises if they do not match; `self.context` would lose
            # its key
            self._load()
            self.context.load_cert_chain(self._cert, self._key)
        except (BadCertificate, OSError) as error:
            log.error("The changed certificate was not loaded, so the old certificate stays in use: %s", error)
        else:
            log.info("The certificate in %s was reloaded", self._cert)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._cert, self._key)
            if self._client_ca is not None:
                context.load_verify_locations(self._client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:
            files = ", ".join(str(file) for file in (self._cert, self._key, self._client_ca) if file is not None)
            raise BadCertificate(f"cannot listen with TLS ({files}): {error}") from error
        return context

    def _check_changes(self) -> bool:
        changes = [
            changes.check() for changes in self._changes
        ]  # a list, because a generator would stop at the first changed file
        return any(changes)
