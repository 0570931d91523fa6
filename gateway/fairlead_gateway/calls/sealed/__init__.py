"""Signed values that clients hold for the gateway: session ids, task ids, and the `requestState` of calls."""
