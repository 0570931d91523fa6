"""Much and for long: the control plane with a thousand servers, and whether anything leaks."""
