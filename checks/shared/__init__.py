"""Code for several checks and benchmarks: the command line, sessions by hand, an S3 server, the time in which this process ran."""
