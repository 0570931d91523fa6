"""Settings of a gateway, and their sources.

Read once by `__main__` or by the command line; the parts get their values as arguments and never see the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta

from fairlead_api.environment import CommaSeparated, EnvironmentSettings
from fairlead_api.setting_types import (
    LONGEST_SECONDS,
    Count,
    EnvironmentName,
    HostHeaders,
    HostsOrNetworks,
    HttpUrl,
    InstallationName,
    IpAddresses,
    ListenAddress,
    LogLevel,
    NamespaceName,
    Networks,
    ObjectName,
    ObjectNames,
    OptionalSeconds,
    Origins,
    Port,
    RedisUrl,
    Seconds,
    Token,
    TraceUrl,
)
from fairlead_mcp.addresses import listen_address
from fairlead_mcp.egress import Egress

DEFAULT_NAMESPACE: Final = "fairlead-system"
DEFAULT_LOCAL_NAMESPACE: Final = "default"
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Settings(EnvironmentSettings, frozen=True, kw_only=True):
    """Every member can be given as `FAIRLEAD_<MEMBER>`; lists are separated by commas."""

    host: ListenAddress = ""
    """Address to listen on, for MCP and for metrics; `::` is every address, IPv4 ones too. Empty: in a pod all of its
    addresses, else `127.0.0.1`.
    """
    pod_ips: IpAddresses = ()
    """IP addresses of the pod that this runs in, the field `status.podIPs`. Without any this is not a pod's."""
    port: Port = 8080
    """0 takes a free one."""
    metrics_port: Port = 9464
    documents: Path | None = None
    """Directory of documents. Without it they are read from the Kubernetes API."""
    credentials: Path | None = None
    """Directory of credentials; `credentials` inside `documents` by default. On a cluster, where the Secrets with them
    are mounted, for starts while the API server is away; the chart does that.
    """
    namespace: NamespaceName | None = None
    """Namespace of the release: where documents and credentials are. By default that of the pod, else fairlead-
    system.
    """
    kubeconfig: Path | None = None
    """By default `KUBECONFIG`, `~/.kube/config`, or the pod's service account."""
    routes: Path | None = None
    """YAML file about models: `routes` (named lists that `/v1/plan` chooses from), `models` (windows in place of those
    that ship with the package) and `liveModels` (a model server that tells them).
    """
    tools: CommaSeparated = ()
    """Modules of custom tools, as `package.module`, `package.module:member` or the path of a file."""
    tool_threads: Count = 16
    """Custom tools that block, at once; the rest waits."""
    pull_token: Token = ""
    """Bearer token that the operator shows when it fetches latencies. Without it only this machine may."""
    installation: InstallationName = ""
    """Name that requests to servers carry in `Via` (`fairlead-` and 16 hexadecimal digits), by which servers that lead
    back here are found. As for the operator; by default it follows from `pull_token`, without one each process has its
    own.
    """
    environment: EnvironmentName = "cluster"
    """Where this gateway stands: latencies are measured and judged apart for each. `fairlead up` says `local`."""
    cache_dir: Path | None = None
    """Where the last documents are kept; nowhere without it."""
    allowed_hosts: HostHeaders = ()
    """Values of `Host` that are answered. By default local names on a loopback address, and any elsewhere. On the
    operations port IP addresses and names that end in `.svc` are answered too.
    """
    session_key: str = ""
    """Secret that session ids are signed with; replicas behind one address share it. Without it each has its own."""
    allowed_origins: Origins = ()
    """Origins of web pages that may call. By default local ones; `*` is any."""
    anonymous: Literal["allow", "deny"] | None = None
    """Whether requests without a credential are let in. By default where nothing else is set up, off a cluster."""
    api_keys: Path | None = None
    """File of API keys, as `fairlead keys` writes it."""
    api_key_secrets: ObjectNames = ()
    """Names of Secrets of API keys in the namespace of the release, labelled `fairlead.dev/api-keys: "true"`."""
    identity: Path | None = None
    """YAML file about whose tokens are taken: `issuers`, `scopes`, `serviceAccounts`."""
    admin_groups: CommaSeparated = ()
    """Groups of those who may ask what others may do (`/v1/access`). With several issuers, each with its own:
    `corp#admins`, by the issuer's name in the `identity` file or its URL.
    """
    key_makers: CommaSeparated = ()
    """Groups whose members may make API keys for themselves, over REST and in the console, written as those of
    `admin_groups`; `*` is everybody with an API key or a token of an issuer. Nobody by default.
    """
    made_keys: Path | None = None
    """File that such keys are kept in, off a cluster. One gateway alone writes it."""
    made_keys_secret: ObjectName = ""
    """Secret of the release's namespace that such keys are kept in, labelled `fairlead.dev/api-keys: "true"`. It has to
    be there, and the gateway to have the rights to get, list, watch and patch it.
    """
    made_key_days: Annotated[int, Meta(ge=1, le=3650)] = 90
    """Longest life of such a key, in days."""
    made_keys_each: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Such keys that one principal may have."""
    gateway_approvals: bool = False
    """Whether those may approve definitions of servers with `pin: true` over REST and in the console. As for the
    operator, which puts them in force.
    """
    public_url: HttpUrl = ""
    """How clients reach the gateway, such as `https://tools.example.com`: tokens are made for it."""
    tls_cert: Path | None = None
    """Certificate chain (PEM) to listen with; with it clients speak HTTPS. Read again when it changes."""
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    """Certificates that a client's own must lead to. With it nobody connects without one."""
    call_timeout: Seconds = 60.0
    """Seconds for a call, where neither the tool nor its server sets less."""
    client_idle: Seconds = 75.0
    """Seconds that a client's connection is kept without a request. Longer than a load balancer in front keeps it, or
    that sends requests into connections that are being closed.
    """
    client_silence: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = 60.0
    """Seconds without an acknowledgement by a client's machine until it counts as gone, and what it has open is ended:
    connections, streams and calls.
    """
    cancel_abandoned: bool = False
    """Whether the call of a client of 2025-11-25 or before that closes its connection is cancelled at the server: at
    once where the client has no event to resume its stream from, else after 60 s without the client. Off by default,
    as that revision of MCP asks; from 2026-07-28 on a closed connection cancels in any case.
    """
    client_header_seconds: Seconds = 10.0
    """Seconds in which the head of a request has to arrive."""
    client_body_seconds: Seconds = 60.0
    """Seconds in which its body has to."""
    client_connections: Annotated[int, Meta(ge=0)] = 10_000
    """Connections of clients at once; more are answered with status 503. 0 takes any number."""
    client_connections_each: Annotated[int, Meta(ge=0)] = 0
    """Connections of one address, of IPv6 one /64 network, at once; more are answered with status 429. 0: three
    quarters of all, but for this machine's own address and those of `trusted_proxies`, which many clients share.
    """
    streams_each: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Streams of notifications that one agent, or one address without a credential, has open at once, of the 10,000 of
    all; more are answered with status 429. 0: a quarter.
    """
    trusted_proxies: Networks = ()
    """Networks (`10.0.0.0/8`) of proxies whose `X-Forwarded-For` says who a client is, for limits and the audit log.
    Nobody's by default. List proxies alone: any peer in these networks may call itself anything.
    """
    max_header_bytes: Annotated[int, Meta(ge=1024)] = 64 << 10
    """Bytes of a request's head; a larger one is answered with status 431. Looked at every 16 KiB."""
    max_request_bytes: Annotated[int, Meta(ge=1)] = 4 << 20
    """Bytes of a request's body; a larger one is answered with status 413."""
    max_result_bytes: Count = 16 << 20
    """Bytes of one result, where the server sets less."""
    answer_bytes: Annotated[int, Meta(ge=0)] = 256 << 20
    """Bytes of large answers at once: half of them on their way from servers, half not read by clients. Beyond that
    servers are not read, and new requests are answered with status 503. 0 takes any number.
    """
    answer_bytes_each: Annotated[int, Meta(ge=0)] = 64 << 20
    """Bytes of answers of one agent, or of one address where nobody is asked who they are; its requests beyond that
    are answered with status 429. 0 takes any number.
    """
    validate: bool = True
    """Whether arguments are checked against a tool's `inputSchema`, and results against its `outputSchema`."""
    aggregates: bool = False
    """Whether a histogram of its calls is kept for each tool, for `fairlead telemetry`. Nothing is sent anywhere."""
    meta_latency: bool = False
    """Whether `tools/list` has each tool's declared and measured latency in its `_meta`. With it a list changes when a
    published figure does, and with the list what clients and model providers keep of it.
    """
    result_cache_bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    """For results of tools with `latency.cacheable`; 0 keeps none."""
    router_result_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = 2000
    """Tokens of a result at `/router/mcp` where neither tool, policy nor request says another number; 0 for any."""
    upstream_connections: Count = 64
    """Calls at once to one server, where it sets less; the rest waits."""
    upstream_waiting: Annotated[int, Meta(ge=0)] = 1024
    """Calls to one server that wait for another to end; more are refused."""
    upstream_sessions: Annotated[int, Meta(ge=1)] = 100
    """Clients at once that a server with `session: PerClient` has a session, or a process, for. At most half of them
    may have a task.
    """
    upstream_sessions_each: Annotated[int, Meta(ge=0)] = 0
    """Those of one agent, or of one address without a credential, that a call or a task uses at the same time; more
    are refused with `RATE_LIMITED`. 0: three quarters of all.
    """
    upstream_session_seconds: Seconds = 300.0
    """How long one of them is kept without a call, with a task too."""
    upstream_queue_seconds: OptionalSeconds = 10.0
    """How long a call waits so before it is refused."""
    open_tasks: Annotated[int, Meta(ge=0)] = 256
    """Tasks (SEP-2663) that one caller may have open, as each replica counts them; 0 takes any number. Further calls
    are made without them: a tool that can do without answers as ever, one that cannot is refused with `RATE_LIMITED`.
    """
    start_wait: OptionalSeconds = 10.0
    """How long a request waits for a server that starts before it is told so; a tier may say less."""
    allowed_urls: HostsOrNetworks = ()
    """Where servers may be although that is denied: host names (`*.tools.svc`) and networks (`192.168.0.0/16`). As for
    the operator.
    """
    denied_networks: Networks = ()
    """Networks of the cluster's pods and Services: there only Services of a server's own namespace may be, and names in
    `allowed_urls`. As for the operator.
    """
    confined: Literal["auto", "always", "never"] = "auto"
    """Whether servers may not be on this machine, at the API server or behind Services of other namespaces: `always`,
    `never`, or `auto`, which is always in a pod. As for the operator.
    """
    agent_calls_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Calls of tools that each agent may make in a minute; those of a whole minute may come at once. Any by default."""
    agent_concurrency: Annotated[int, Meta(ge=1)] | None = None
    """Calls of tools that each agent may have running at once, at one replica."""
    agent_tokens_per_day: Annotated[int, Meta(ge=1)] | None = None
    """Tokens that models may read and write for each agent in a UTC day, over the endpoints in front of models. Any by
    default.
    """
    redis: RedisUrl = ""
    """`redis://…` or `rediss://…` (TLS): replicas share the rates of agents, policies, tools and servers, and tokens of
    a day. Without it each has its own.
    """
    redis_settle_seconds: Annotated[float, Meta(ge=0.01, le=60)] = 0.1
    """How often replicas tell each other, over Redis, what they let through."""
    redis_timeout: Annotated[float, Meta(gt=0, le=60)] = 0.5
    """Seconds that Redis may take to answer. No call waits for it."""
    redis_down: Literal["open", "closed"] = "open"
    """While Redis is away: `open`, each replica goes by its own limits; `closed`, calls with a shared limit are
    refused.
    """
    redis_prefix: str = "fairlead"
    """Prefix of keys in Redis: one for each installation."""
    context_seconds: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = 3600.0
    """How long results of `execute_tool` are kept for `retrieve_context`, from the last one of their session on."""
    context_bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    """Bytes of all kept results, in Redis or in the folder where there is one, else in each replica; 0 keeps none."""
    context_bytes_each: Annotated[int, Meta(ge=0)] = 4 << 20
    """Bytes of one principal's kept results, or of one session of an anonymous caller; its oldest go first."""
    context_directory: Path | None = None
    """Folder that keeps results through a restart, in place of memory or Redis; gateways of a machine may share it."""
    embedder: Literal["auto", "built-in", "endpoint", "none"] = "auto"
    """Who makes the vectors that tools are searched by, beside their words: `built-in`, the encoder of the extra
    `search`; `endpoint`, that of `embedder_url`; `none`; or `auto`: the endpoint where there is one, else the encoder
    where it is installed.
    """
    embedder_url: HttpUrl = ""
    """Base of an OpenAI-compatible API that has `/embeddings`, such as `http://vllm.models:8000/v1`. It may be where
    servers may be, those of the release's namespace.
    """
    embedder_model: str = ""
    """Model that is asked for there."""
    embedder_key: Token = ""
    """Bearer token for it."""
    embedder_dimensions: Annotated[int, Meta(ge=0, le=16384)] = 0
    """Numbers in a vector, for models that can be cut (Matryoshka); 0: as many as the model makes."""
    embedder_instruction: str = ""
    """Task that queries are sent with (`Instruct: …`), for models that were trained so, such as Qwen3's."""
    console: bool = True
    """Whether the gateway serves its console at `/console/`: pages of what the REST API tells the same principal."""
    console_client_id: str = ""
    """Id of the console as a client of an issuer in `identity`. With it people sign in by OpenID Connect."""
    console_client_secret: str = ""
    """Secret of that client, where it has one; without it the client is a public one, and PKCE alone protects codes."""
    console_scopes: CommaSeparated = ()
    """Scopes to ask for beside `openid` and those that every token must have, such as `groups`."""
    console_issuer: str = ""
    """Which issuer signs people in, by its name or URL; needed where there are several."""
    console_url: HttpUrl = ""
    """Where browsers reach the console, such as `https://tools.example.com`; by default `public_url`. The provider
    sends them back to `/console/sign-in/oidc/callback` there.
    """
    console_trace_url: TraceUrl = ""
    """Where a trace is looked at, with `{trace_id}` in place of its id, such as
    `https://grafana.example.com/explore?traceId={trace_id}`: pages of calls link there.
    """
    recent_calls: Annotated[int, Meta(ge=0, le=100_000)] = 1000
    """Calls that each replica keeps in memory for `/v1/calls` and the console, the last ones; 0 keeps none."""
    recent_calls_bytes: Annotated[int, Meta(ge=262_144, le=1_073_741_824)] = 4 << 20
    """Bytes of these, at most. A call takes up to 1.3 kB, of half of them; those with long names, and with arguments,
    where the audit log has them, take of the other half."""
    llm_rounds: Annotated[int, Meta(ge=1, le=100)] = 8
    """Answers of a model that may call tools, in one request to an endpoint in front of models; one more may not."""
    llm_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    """For such a request, with all that the model and its tools do."""
    llm_tokens: Annotated[int, Meta(ge=0)] = 0
    """Tokens that a model may read and write in such a request before it may call no further tool; 0: any number."""
    llm_request_bytes: Annotated[int, Meta(ge=65_536, le=67_108_864)] = 10 << 20
    """Bytes of such a request, images included; a longer one is refused with 413."""
    llm_requests: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Such requests in progress at the same time; further ones are refused with 503."""
    llm_requests_each: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Those of one agent, or of one address without a credential; further ones are refused with 429. 0: a quarter of
    all, rounded up."""
    speech_sessions: Annotated[int, Meta(ge=1, le=100_000)] = 200
    """Speech sessions at the same time, in front of models that speak; further ones are refused with 503."""
    speech_sessions_each: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Those of one agent, or of one address without a credential; further ones are refused with 429. 0: a quarter of
    all, rounded up."""
    speech_provider_mcp: bool = False
    """Whether clients of speech sessions may have the provider call MCP servers by itself, past policies and audit."""
    speech_client_secrets: bool = False
    """Whether `POST /v1/realtime/client_secrets` makes secrets with which a client speaks to the provider directly."""
    compressor_url: HttpUrl = ""
    """Base of an OpenAI-compatible API that has `/chat/completions`, which compresses what `retrieve_context` answers.
    It may be where servers may be. Without it passages are picked word for word.
    """
    compressor_model: str = ""
    """Model that is asked for there."""
    compressor_key: Token = ""
    """Bearer token for it."""
    compressor_seconds: Annotated[float, Meta(gt=0, le=120)] = 10.0
    """Seconds for one answer with all attempts; after that passages are picked word for word."""
    search_directory: Path | None = None
    """Folder of a LanceDB that keeps the vectors of tools through a restart, so that none is made again. One gateway
    alone may use it. Needs the extra `lancedb`.
    """
    audit: Literal["off", "denials", "all"] = "denials"
    """Which calls get a line in the audit log: none, those that were denied or limited (crowds of them are summed up),
    or all."""
    audit_file: Path | None = None
    """Where it is written; standard output without it. It may be moved away at any time."""
    audit_file_bytes: Annotated[int, Meta(ge=0)] = 100_000_000
    """Size at which it is renamed to `….1`, in place of the one before; 0 never does, for files that something else
    rotates."""
    audit_arguments: Literal["none", "hash", "redact", "full"] = "none"
    """Form of call arguments in the audit log: none, a keyed hash, all but `audit_redact`, or all."""
    audit_redact: CommaSeparated = ()
    """Paths into arguments, such as `user.password`, `*.token` or `**.secret`."""
    audit_otlp: bool = False
    """Whether its lines also go out by OTLP, where logs do (`OTEL_EXPORTER_OTLP_ENDPOINT`)."""
    audit_key: str = ""
    """Secret key of the hashes. Without it every process takes one of its own, and only its own hashes compare."""
    rest_processes: Annotated[int, Meta(ge=0, le=64)] = 1
    """Processes for bulk conversions, and as many for counting tokens (80 MB each), at most; started when needed. 0
    does everything in the gateway, and calls wait for it.
    """
    rest_share: Annotated[float, Meta(ge=0.0001, le=1)] = 0.003
    """Part of the event loop's time that conversions may take while tools are called: they wait for their turn then.
    More converts more a second, and calls wait longer.
    """
    drain: OptionalSeconds = 0.0
    """Seconds after SIGTERM in which connections and requests are still taken, each answered with `Connection: close`.
    Longer than it takes whatever stands in front to send nothing any more; the chart sets 5.
    """
    grace: OptionalSeconds = 25.0
    """Seconds that calls in flight get after that; keep the sum below the pod's termination grace."""
    log_level: LogLevel = "INFO"
    """Least severe level that is logged."""
    log_format: Literal["text", "json"] = "text"
    """`text` for people, `json` for collectors: one object per line."""

    @property
    def address(self) -> str:
        """`host`, or what stands in for it."""
        return self.host or (listen_address(self.pod_ips) if self.pod_ips else "127.0.0.1")

    @property
    def egress(self) -> Egress:
        """Where servers may be."""
        confined = None if self.confined == "auto" else self.confined == "always"
        return Egress.of(self.allowed_urls, self.denied_networks, confined=confined)

    @property
    def local_namespace(self) -> str:
        """Namespace of the server `local`: that of the release, off a cluster `default` like that of other servers."""
        return DEFAULT_LOCAL_NAMESPACE if self.documents is not None and not self.namespace else self.release_namespace

    @property
    def release_namespace(self) -> str:
        """`namespace`, or what stands in for it."""
        if self.namespace:
            return self.namespace
        try:
            return _NAMESPACE_FILE.read_text().strip() or DEFAULT_NAMESPACE
        except OSError:
            return DEFAULT_NAMESPACE
