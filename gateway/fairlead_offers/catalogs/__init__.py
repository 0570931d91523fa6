"""Tools as one subject may see them."""
