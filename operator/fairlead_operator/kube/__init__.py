"""The Kubernetes side of the operator: adapters of `fairlead_operator.ports` on an API server, through `fairlead_kube`.

Nothing here decides anything about a server: that is `fairlead_operator.server`, which is pure.
"""
