"""The operator outside of a cluster, with manifests on disk, child processes, and documents in a directory.

Implements the protocols of `fairlead_operator.ports` for `fairlead up`. Depends neither on Kubernetes nor on the
gateway.
"""
