"""Other proxies for `hack/bench gateway --peers`: how each is installed, started and called."""
