"""Makes the contents of packages, and checks that a packed client and daemon work."""
