"""The custom resources of `fairlead.dev/v1alpha1`: one module per kind, conditions and shared parts beside them.

The docstring under a field is its description in the CRD; rules stand beside the fields that they guard.
"""
