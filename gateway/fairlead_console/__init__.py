"""Web console of the gateway: pages about servers, tools and calls.

The gateway renders the pages from responses of the REST API, which the console calls in the same process with the
identity of the visitor. So a page never shows more than `/v1` returns to the same principal. `application` is the entry
point, `pages` has a folder per page.
"""
