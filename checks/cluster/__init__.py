"""Real daemons in network namespaces, between which the network breaks."""
