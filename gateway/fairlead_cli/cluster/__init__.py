"""What a cluster runs: `fairlead operator`, `fairlead gateway`, and the custom resources (`fairlead crds`)."""
