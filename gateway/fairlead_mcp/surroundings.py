"""Environment variables that programs started by Fairlead get of its own environment, which may hold secrets. Pure;
standard library alone, for the runner image has a copy of this file.
"""

from __future__ import annotations

from typing import Final

INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The variables that every child gets; anything else of ours may be a secret and must be named in its spec."""
NETWORK: Final = frozenset(
    {
        "all_proxy",
        "curl_ca_bundle",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "node_extra_ca_certs",
        "requests_ca_bundle",
        "ssl_cert_dir",
        "ssl_cert_file",
    }
)
"""How a program on this machine reaches the network, in lower case: without these, many a server starts and then
fails.
"""
