"""The command: see the package."""

import sys

from checks.protocol import check, write
from checks.shared.command_line import Arguments

parser = Arguments(prog="python3 -m checks.protocol", description="Checks the generated files of the local protocol.")
parser.add_argument("--write", action="store_true", help="write the generated files first")
if parser.parse_args().write:
    write()
problems = check()
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
