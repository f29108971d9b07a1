"""Checks what other programs see of a daemon: the dashboard in a browser, metrics in Prometheus, events in vLLM and Dynamo."""
