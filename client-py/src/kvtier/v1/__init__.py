"""The messages and the stub of gRPC service `kvtier.v1.Kvtier`, generated from the daemon's `.proto` file. They need `kvtier[remote]`."""
