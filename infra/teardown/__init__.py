"""What an environment left in its account, and what is to be said of it: decisions over what AWS answered. Pure."""
