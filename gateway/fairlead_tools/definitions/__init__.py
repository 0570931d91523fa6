"""Definitions of servers as people judge them: their difference from approved ones, and what is hidden in them."""
