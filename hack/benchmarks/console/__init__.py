"""The console: its effect on tool calls, and how fast its pages load."""
