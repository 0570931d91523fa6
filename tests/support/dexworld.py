"""A gateway whose authorization server stands in front of Dex, with one user, and a tool that only the user's group may
call.

async with dex_world(tmp_path, server={"registration": {"redirectHosts": ["localhost"]}}) as world:
    await visit(address, LOGIN)                     # the person, who signs in and allows
    await world.dex.remove("bob@example.com")       # one whom `add` has added
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from authorizationworld import gateway_of, identity_file
from dexprocess import dex_process
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from ports import free_port

CLIENT: Final = "fairlead"
SECRET: Final = "the secret/of the gateway+"
LOGIN: Final = {"login": "ann@example.com", "password": "password"}
HASH: Final = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
"""bcrypt hash of `password`."""
STAFF_ALONE: Final = Rules(
    policies=(
        Policy(
            namespace="default",
            name="staff",
            every=True,
            subjects=(Subject(kind="Group", name="staff"),),
            rules=(Rule(action="Allow", tools=("*",)),),
        ),
    ),
)


@dataclass(frozen=True)
class Dex:
    """Dex's gRPC API (`api/api.proto`)."""

    issuer: str
    api: str

    async def add(self, email: str) -> None:
        """Add a user with the password of LOGIN and without groups."""
        person = _fields(email.encode(), HASH.encode(), email.encode(), email.encode())
        await self._call("CreatePassword", _fields(person))

    async def remove(self, email: str) -> None:
        """Remove a user whom `add` has added, and revoke the refresh token for the gateway. Dex would otherwise renew
        it with the data of the login.
        """
        await self._call("DeletePassword", _fields(email.encode()))
        subject = base64.urlsafe_b64encode(_fields(email.encode(), b"local")).rstrip(b"=")
        await self._call("RevokeRefresh", _fields(subject, CLIENT.encode()))

    async def _call(self, method: str, request: bytes) -> None:
        async with grpc.aio.insecure_channel(self.api) as channel:
            answer = await channel.unary_unary(f"/api.Dex/{method}")(request)
        assert answer == b"", f"{method}: {answer!r}"  # its members say that an object did not exist


@dataclass(frozen=True)
class DexWorld:
    base: str
    dex: Dex


def configuration(issuer: str, port: int, callback: str, **more: Any) -> dict[str, Any]:
    """Dex's configuration with one user, and with the gateway as its client. Keywords are further members."""
    person = {
        "email": LOGIN["login"],
        "hash": HASH,
        "username": "ann",
        "groups": ["staff"],
        "userID": "08a8684b-db88-4b73-90a9-3cd1661f5466",
    }
    return {
        "issuer": issuer,
        "storage": {"type": "memory"},
        "web": {"http": f"127.0.0.1:{port}"},
        "oauth2": {"skipApprovalScreen": True},
        "enablePasswordDB": True,
        "staticClients": [{"id": CLIENT, "name": "Gateway", "secret": SECRET, "redirectURIs": [callback]}],
        "staticPasswords": [person],
        **more,
    }


@contextlib.asynccontextmanager
async def dex_for(folder: Path, base: str, **server: Any) -> AsyncIterator[tuple[Dex, Path]]:
    """Dex for a gateway at an address, and the gateway's identity file. Keywords are members of
    `authorizationServer`.
    """
    port, api_port = free_port(), free_port()
    dex = Dex(f"http://localhost:{port}/dex", f"127.0.0.1:{api_port}")
    served = configuration(dex.issuer, port, f"{base}/oauth/callback/corp", grpc={"addr": dex.api})
    (folder / "secret").write_text(SECRET)
    client = {"issuer": "corp", "clientId": CLIENT, "clientSecretFile": str(folder / "secret")}
    async with dex_process(folder, served):
        yield dex, identity_file(folder, [{"issuer": dex.issuer, "name": "corp"}], [client], **server)


@contextlib.asynccontextmanager
async def dex_world(folder: Path, *, server: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[DexWorld]:
    """Keywords are settings of the gateway."""
    port = free_port()
    async with (
        dex_for(folder, f"http://127.0.0.1:{port}", **(server or {})) as (dex, identity),
        gateway_of(folder, identity, STAFF_ALONE, port=port, **more) as (base, _),
    ):
        yield DexWorld(base, dex)


def _fields(*values: bytes) -> bytes:
    """Encode a message with fields of type string or bytes, numbered from 1, each shorter than 128 bytes."""
    return b"".join(bytes([number << 3 | 2, len(value)]) + value for number, value in enumerate(values, 1))
