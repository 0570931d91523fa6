"""Faults on a real cluster under constant load: the installation, the faults, and the clients that observe them."""
