"""Decides which tools a model is offered, beside the caller's own, and in which form."""
