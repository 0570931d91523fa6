"""A subject's tools as models need them: visible, searched, planned, converted, offered and run, with kept results."""
