"""The checks of kvtier: one package for each thing that is checked, and `shared` for what several of them need.

documents   what people read: sentences, links, decisions, the page of benchmarks, the version, NOTICE, the site
protocol    the local protocol: one schema, from which its Java, C and Python are written
code        the source code and its tests: structure, guards that are removed, mutations, counts of tests
attacks     hostile clients and malformed input against a daemon beside honest clients
torture     kills of a daemon at random moments
soak        all tiers and clients for hours, with a fault every few seconds
upgrade     one release's daemon in the place of another's
engines     real inference engines on kvtier
gpu         a real GPU
monitoring  dashboard, metrics and events as other programs read them
packages    what is packed and published, and that it works where it is installed

`python3 -m checks` runs the checks of documents and of the protocol, which need only the standard library. Scripts in scripts/ start most of the others; docs/develop/hacking.md lists all.
"""
