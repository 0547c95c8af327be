"""What an account must offer before an environment can stand in it: decisions over what AWS answered. Pure."""
