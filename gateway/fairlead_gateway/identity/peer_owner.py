"""Decides whether a request comes from the machine's owner (`LOCAL`), for a gateway that serves only its own machine.

Other users and containers of the machine can reach a loopback address too, and so can anybody through a proxy or
tunnel. So a request counts as the owner's only if it was not forwarded (`core.request.is_forwarded`), and comes from a
process of the gateway's user or of root. Only Linux tells which user's process is at the other end of a connection; on
other systems, every connection counts as the owner's.

The kernel is asked for one socket, by its addresses (sock_diag(7)). That is a look-up in a hash table, whereas
`/proc/net/tcp` lists all sockets.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from ipaddress import IPv4Address, ip_address
from typing import Final

Address = tuple[str, int]
"""IP address and port."""

NOBODY: Final = -1
"""Stands for the owner of a socket that no process has open any more."""
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_NLMSG_ERROR: Final = 2
_ALL_STATES: Final = 0xFFFFFFFF
_ANY_COOKIE: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence, port."""
_REQUEST: Final = struct.Struct("=BBBxI")
"""Start of inet_diag_req_v2: family, protocol, extensions, states; inet_diag_sockid follows."""
_ENDS: Final = struct.Struct("!HH16s16s")
"""Start of inet_diag_sockid: ports and addresses of both ends, in network order."""
_COOKIE: Final = struct.Struct("=III")
"""Rest of inet_diag_sockid: interface, and the cookie in two words."""
_OWNER: Final = struct.Struct("=II")
"""idiag_uid and idiag_inode, at the end of inet_diag_msg."""
_OWNER_AT: Final = _HEADER.size + 4 + _ENDS.size + _COOKIE.size + 12
_SECONDS: Final = 1.0
_ANSWER_BYTES: Final = 4096


def is_by_owner(peer: Address, local: Address) -> bool:
    """Whether a TCP connection of this machine comes from a process of the gateway's user or of root; True if the
    system does not tell. `peer` and `local` are the addresses of both ends.
    """
    owner = peer_owner(peer, local)
    return owner is None or owner in (0, os.getuid())


def peer_owner(peer: Address, local: Address) -> int | None:
    """User id of the process at the other end of a TCP connection of this machine, from the addresses of both ends.

    NOBODY if there is no such process any more; None if the operating system does not report it.
    """
    try:
        return _owner_of(peer, local)
    except (OSError, ValueError, struct.error, AttributeError):
        return None


def _owner_of(peer: Address, local: Address) -> int:
    """Look up the owner for `peer_owner`. Raises OSError, ValueError, struct.error, and AttributeError without
    netlink.
    """
    ends = ip_address(peer[0]), ip_address(local[0])
    families = [socket.AF_INET, socket.AF_INET6] if isinstance(ends[0], IPv4Address) else [socket.AF_INET6]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_SECONDS)
        for family in families:  # a process may connect to an IPv4 address by an IPv6 socket
            addresses = [each.packed if family == socket.AF_INET else _mapped(each.packed) for each in ends]
            sockid = _ENDS.pack(peer[1], local[1], *addresses) + _COOKIE.pack(0, _ANY_COOKIE, _ANY_COOKIE)
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES) + sockid
            size = _HEADER.size + len(request)
            kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + request)
            with contextlib.suppress(FileNotFoundError):
                return _read_answer(kernel.recv(_ANSWER_BYTES))
    return NOBODY


def _read_answer(answer: bytes) -> int:
    """User id in the kernel's answer. Raises FileNotFoundError if there is no such socket, another OSError for other
    refusals, and struct.error.
    """
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind == _NLMSG_ERROR:
        (code,) = struct.unpack_from("=i", answer, _HEADER.size)
        raise OSError(-code, "sock_diag")
    uid, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    return uid if inode else NOBODY


def _mapped(packed: bytes) -> bytes:
    """Convert an address to IPv6; an IPv4 address is mapped (RFC 4291 section 2.5.5.2)."""
    return packed if len(packed) == 16 else b"\0" * 10 + b"\xff\xff" + packed
