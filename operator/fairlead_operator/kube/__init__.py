"""The Kubernetes side of the operator: adapters of `fairlead_operator.ports` on an API server.

`client` is the only module that imports the Kubernetes client; what leaves it are plain dicts and the errors of
`errors`. Nothing here decides anything about a server: that is `fairlead_operator.server`, which is pure.
"""
