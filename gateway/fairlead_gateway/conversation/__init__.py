"""Chooses the latency tier for the next answer of a conversation from what the user says.

Pure: the input is the text, the number of waiting requests and the conversation's state; the output is a choice and a
new state. The REST API offers the choice; programs may also call `Chooser.choose` directly.
"""
