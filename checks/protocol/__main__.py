"""The command: see the package."""

import sys

from checks.protocol import check, write

if sys.argv[1:] == ["--write"]:
    write()
elif sys.argv[1:]:
    raise SystemExit(f"checks.protocol: unknown word {sys.argv[1]!r}; expected --write, or nothing")
problems = check()
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
