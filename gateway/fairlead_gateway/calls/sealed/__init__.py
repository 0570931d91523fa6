"""Values that clients hold for the gateway, sealed: ids of sessions and of tasks, the state of a call that asks."""
