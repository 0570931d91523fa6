"""The console beside calls, and how fast its pages are there."""
