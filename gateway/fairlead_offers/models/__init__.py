"""Facts about models, and requests of the gateway to models."""
