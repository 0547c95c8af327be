"""Looks in an account for everything of one environment. Reads only."""
