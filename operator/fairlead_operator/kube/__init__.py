"""The Kubernetes side of the operator: adapters of `fairlead_operator.ports` on an API server.

Only `client` speaks to the API server, over connections that `connection` configures and `fence` guards; what leaves it
are plain dicts and the errors of `errors`. Nothing here decides anything about a server: that is
`fairlead_operator.server`, which is pure.
"""
