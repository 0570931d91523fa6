"""Commands for a cluster: `fairlead operator`, `gateway`, `crds` and `migrate`."""
