"""Program: an OpenID provider that signs in a different person each time. Its argument is the port."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Final

from oidcprovider import OidcProvider
from rawserver import Reply, Request, raw_server

GROUPS: Final = [f"group-{number:02d}" for number in range(10)]


class CrowdProvider(OidcProvider):
    """Signs in a different person for each authorization request, without a sign-in page."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count()

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.path.startswith("/authorize"):
            self.person = f"person-{next(self._numbers)}"
            self.id_claims = {"email": f"{self.person}@example.com", "groups": GROUPS}
        await super().handle(request, reply)


async def main(port: int) -> None:
    """Serve until the process is ended."""
    provider = CrowdProvider()
    provider.url = f"http://127.0.0.1:{port}"
    async with raw_server(provider.handle, port=port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
