"""The console: pages about servers, tools and calls for people with a browser, served by the gateway itself.

Pages are rendered on the server from answers of the REST API, asked in this process as the person who looks: a page can
show nothing that `/v1` would not tell the same principal. `console` is the entry, `pages` has a folder for each page.
"""
