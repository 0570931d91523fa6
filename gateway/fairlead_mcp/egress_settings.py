"""Settings of egress rules, which gateway and operator share."""

from __future__ import annotations

from typing import Literal

from fairlead_api.environment import EnvironmentSettings
from fairlead_api.setting_types import HostsOrNetworks, Networks
from fairlead_mcp.egress import Egress


class EgressSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Egress: addresses that servers may have."""

    allowed_urls: HostsOrNetworks = ()
    """Exceptions from the egress rules: host names (`*.tools.svc`) and networks (`192.168.0.0/16`) that servers may
    have although they are denied otherwise. Gateway and operator need the same value.
    """
    denied_networks: Networks = ()
    """Networks of the cluster's pods and Services. In these networks a server may use only Services of its own
    namespace and names in `allowed_urls`. Gateway and operator need the same value.
    """
    confined: Literal["auto", "always", "never"] = "auto"
    """Whether servers may not be at addresses of this machine, of the API server and of Services of other namespaces:
    `always`, `never`, or `auto`, which means `always` in a pod. Gateway and operator need the same value.
    """

    @property
    def rules(self) -> Egress:
        """Egress rules of these settings. Raises BadEgress."""
        confined = None if self.confined == "auto" else self.confined == "always"
        return Egress.of(self.allowed_urls, self.denied_networks, confined=confined)
