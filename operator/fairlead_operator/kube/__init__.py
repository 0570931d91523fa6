"""Adapters of `fairlead_operator.ports` for a Kubernetes API server, through `fairlead_kube`.

The decisions about servers are made in `fairlead_operator.server`, which is pure.
"""
