"""Settings of the ports that the gateway listens on."""

from __future__ import annotations

from pathlib import Path

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import (
    HostHeaders,
    IpAddresses,
    ListenAddress,
    Networks,
    OptionalSeconds,
    Origins,
    Port,
)
from fairlead_gateway.endpoint.client_limits import ClientLimits
from fairlead_mcp.addresses import listen_address


class TlsSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("tls_")):
    """TLS."""

    cert: Path | None = None
    """Certificate chain (PEM) to listen with; with it clients speak HTTPS. Read again when it changes."""
    key: Path | None = None
    client_ca: Path | None = None
    """Certificates that a client's own must lead to. With it nobody connects without one."""


class ListeningSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Ports: addresses, names, and their end."""

    host: ListenAddress = ""
    """Address to listen on, for MCP and for metrics; `::` is every address, IPv4 ones too. Empty: in a pod all of its
    addresses, else `127.0.0.1`.
    """
    pod_ips: IpAddresses = ()
    """IP addresses of the pod that this runs in, the field `status.podIPs`. Without any this is not a pod's."""
    port: Port = 8080
    """0 takes a free one."""
    metrics_port: Port = 9464
    allowed_hosts: HostHeaders = ()
    """Values of `Host` that are answered. By default local names on a loopback address, and any elsewhere. On the
    operations port IP addresses and names that end in `.svc` are answered too.
    """
    allowed_origins: Origins = ()
    """Origins of web pages that may call. By default local ones; `*` is any."""
    trusted_proxies: Networks = ()
    """Networks (`10.0.0.0/8`) of proxies whose `X-Forwarded-For` says who a client is, for limits and the audit log.
    Nobody's by default. List proxies alone: any peer in these networks may call itself anything.
    """
    drain: OptionalSeconds = 0.0
    """Seconds after SIGTERM in which connections and requests are still taken, each answered with `Connection: close`.
    Longer than it takes whatever stands in front to send nothing any more; the chart sets 5.
    """
    grace: OptionalSeconds = 25.0
    """Seconds that calls in flight get after that; keep the sum below the pod's termination grace."""
    tls: TlsSettings = TlsSettings()
    limits: ClientLimits = ClientLimits()

    @property
    def address(self) -> str:
        """`host`, or what stands in for it."""
        return self.host or (listen_address(self.pod_ips) if self.pod_ips else "127.0.0.1")
