"""Settings of where servers may be, which gateway and operator share."""

from __future__ import annotations

from typing import Literal

from fairlead_api.environment import EnvironmentSettings
from fairlead_api.setting_types import HostsOrNetworks, Networks
from fairlead_mcp.egress import Egress


class EgressSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Egress: addresses that servers may have."""

    allowed_urls: HostsOrNetworks = ()
    """Where servers may be although that is denied: host names (`*.tools.svc`) and networks (`192.168.0.0/16`).
    Gateway and operator take the same.
    """
    denied_networks: Networks = ()
    """Networks of the cluster's pods and Services: there only Services of a server's own namespace may be, and names in
    `allowed_urls`. Gateway and operator take the same.
    """
    confined: Literal["auto", "always", "never"] = "auto"
    """Whether servers may not be on this machine, at the API server or behind Services of other namespaces: `always`,
    `never`, or `auto`, which is always in a pod. Gateway and operator take the same.
    """

    @property
    def rules(self) -> Egress:
        """Raises BadEgress."""
        confined = None if self.confined == "auto" else self.confined == "always"
        return Egress.of(self.allowed_urls, self.denied_networks, confined=confined)
