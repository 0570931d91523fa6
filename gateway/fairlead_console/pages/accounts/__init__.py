"""Page with the accounts that persons have at servers, where they are ended."""
