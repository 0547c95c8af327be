"""The policy pack: `pulumi preview --policy-pack infra/policy`. Knows Pulumi's policies, and nothing of the program."""
