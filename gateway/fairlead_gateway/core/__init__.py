"""Types that the layers of the gateway have in common; nothing here imports any of them."""
