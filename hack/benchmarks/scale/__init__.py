"""Scale and endurance: the control plane with a thousand servers, and a search for leaks."""
