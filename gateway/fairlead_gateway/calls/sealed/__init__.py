"""Signed values that the gateway gives to clients, and that they send back: session ids, task ids, `requestState`."""
