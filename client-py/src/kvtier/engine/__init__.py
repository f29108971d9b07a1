"""What connectors of all engines share. Nothing here imports an engine."""
