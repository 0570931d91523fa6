"""Page with the accounts that users have at servers, where they are ended."""
