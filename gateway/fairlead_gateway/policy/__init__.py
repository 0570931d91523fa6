"""Decides which tools a subject may list and call at an endpoint; lists and calls use the same decision."""
