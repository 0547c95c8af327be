"""What the commands of `python -m workload` do."""
