"""Faults on a real cluster under constant load: the world, what is broken in it, and who sees it."""
