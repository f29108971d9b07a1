"""Checks what people read: sentences, links, decisions, the page of benchmarks, the version and NOTICE; gathers the pages of the site."""
