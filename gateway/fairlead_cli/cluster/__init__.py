"""Processes of a cluster: `fairlead operator`, `fairlead gateway`, and the custom resources (`fairlead crds`)."""
