"""Chooses the latency tier for the next answer of a conversation from what the user says.

Pure: the input is text, circumstances and a state; the output is a choice and a new state. The REST API serves it;
programs may also call `Chooser.choose` directly.
"""
