"""The custom resources of `fairlead.dev/v1alpha1`: one module per kind, and modules for conditions and common parts.

The docstring under a field is its description in the CRD; validation rules are next to the fields that they guard.
"""
