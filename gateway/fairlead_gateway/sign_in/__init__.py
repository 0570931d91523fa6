"""User sign-ins to servers that require the consent of each user, from the link to the grant."""
