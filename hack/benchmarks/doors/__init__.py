"""Every door of the gateway, beside the plain call."""
