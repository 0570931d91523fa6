"""Types that all packages of the gateway share; this package imports none of them."""
