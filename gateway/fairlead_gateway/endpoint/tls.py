"""Server certificate of the listener, reloaded when its files change.

Open connections keep the certificate that they were opened with. Files that do not fit together (as in the middle of a
renewal) change nothing.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

from fairlead_gateway.file_changes import FileChanges

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0


class BadCertificate(ValueError):
    """The files cannot be used; the message says which and why."""


class Certificates:
    """TLS context of a listener. With `client_ca`, which is read once, a client needs a certificate of that authority.

    Raises BadCertificate.
    """

    def __init__(self, cert: Path, key: Path | None = None, client_ca: Path | None = None) -> None:
        self._cert = cert
        self._key = key or cert
        self._client_ca = client_ca
        self._changes = [FileChanges(file) for file in (self._cert, self._key)]
        self._changed()
        self.context = self._loaded()

    def look(self) -> None:
        """Take the files again if they changed. Called every second or so."""
        if not self._changed():
            return
        try:
            self._loaded()  # into another context first: a pair that does not fit would leave this one without a key
            self.context.load_cert_chain(self._cert, self._key)
        except (BadCertificate, OSError) as error:
            log.error("The certificate stays as it was: %s", error)
        else:
            log.info("The certificate in %s was renewed", self._cert)

    def _loaded(self) -> ssl.SSLContext:
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

    def _changed(self) -> bool:
        changed = [changes.look() for changes in self._changes]  # of each, also where the first one has changed
        return any(changed)
