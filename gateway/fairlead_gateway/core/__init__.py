"""Types that all layers of the gateway share; this package imports none of the layers."""
