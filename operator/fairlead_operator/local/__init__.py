"""The operator off a cluster: manifests and client configurations on disk, child processes, documents in a directory.

Implements the ports of `fairlead_operator.ports` for `fairlead up`. Knows nothing of Kubernetes or of the gateway.
"""
