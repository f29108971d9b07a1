"""`python -m kvtierd`: the daemon."""

from kvtierd import daemon

daemon()
