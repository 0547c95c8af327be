"""What the commands of `python -m infra` do."""
