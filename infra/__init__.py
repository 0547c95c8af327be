"""What `pulumi up` builds: one component per file, pure decision modules beside them."""
