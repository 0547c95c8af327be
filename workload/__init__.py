"""What runs in the Ray job and on the laptop. Never imports pulumi, kubernetes or infra."""
