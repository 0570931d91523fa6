"""Sign-ins of persons at servers that want the consent of each person: from the link to the grant."""
