"""Page about the measured latency of tools, by category, compared with what they declare."""
