"""Settings of the ports on which the gateway listens."""

from __future__ import annotations

from pathlib import Path

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import (
    HostHeaders,
    IpAddresses,
    ListenAddress,
    Networks,
    Origins,
    Port,
    SecondsOrZero,
)
from fairlead_gateway.endpoint.client_limits import ClientLimits
from fairlead_mcp.addresses import listen_address


class TlsSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("tls_")):
    """TLS of the port for clients."""

    cert: Path | None = None
    """File with the server's certificate chain (PEM), which enables HTTPS. Reloaded when it changes."""
    key: Path | None = None
    """File with the private key (PEM); by default, the file of `cert` also has the key. Reloaded when it changes."""
    client_ca: Path | None = None
    """File with CA certificates (PEM). Clients then have to present a certificate that was issued by one of these
    CAs.
    """


class ListeningSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Ports: addresses, allowed hosts and origins, and shutdown."""

    host: ListenAddress = ""
    """Address to listen on, for MCP and for metrics; `::` stands for all IPv4 and IPv6 addresses. If empty, the gateway
    listens on all addresses in a pod, and otherwise on `127.0.0.1`.
    """
    pod_ips: IpAddresses = ()
    """IP addresses of the gateway's pod, from the field `status.podIPs`. Empty outside of a cluster."""
    port: Port = 8080
    """Port for clients; 0 chooses a free port."""
    metrics_port: Port = 9464
    """Operations port, for metrics and probes; 0 chooses a free port."""
    allowed_hosts: HostHeaders = ()
    """Allowed values of the header `Host`. By default, local names if the gateway listens on a loopback address, and
    any name on other addresses. The operations port also allows IP addresses, and names that end in `.svc`.
    """
    allowed_origins: Origins = ()
    """Origins of web pages that may call the gateway, and read answers of MCP endpoints (CORS); `*` allows any origin.
    By default, local origins, which may read them if each request needs a credential.
    """
    trusted_proxies: Networks = ()
    """Networks (`10.0.0.0/8`) of proxies whose `X-Forwarded-For` is accepted as the client's address, for limits and
    the audit log. By default, no proxy is trusted. List only proxies: any peer in these networks can claim any address.
    """
    drain: SecondsOrZero = 0.0
    """Seconds after SIGTERM in which connections and requests are still accepted. Each response then has `Connection:
    close`. Set it longer than load balancers take to stop sending requests; the chart sets 5.
    """
    grace: SecondsOrZero = 25.0
    """Seconds for calls in flight to complete after `drain`. The sum has to be below the pod's termination grace
    period.
    """
    tls: TlsSettings = TlsSettings()
    limits: ClientLimits = ClientLimits()

    @property
    def address(self) -> str:
        """The address to listen on: `host`, or its default."""
        return self.host or (listen_address(self.pod_ips) if self.pod_ips else "127.0.0.1")
