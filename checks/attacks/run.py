"""Attacks a daemon with a small heap, each attack for a while, beside honest clients; run by attacks-check.

Some attacks make the daemon hold bytes: its memory must stay below a bound. Others forge encoded blocks: no reader may get a wrong byte.
Under each attack the daemon must live, and answer honest clients. The attackers talk to 127.0.0.1 alone.

Exit codes: 0 the daemon kept its promises, 1 it did not, 2 wrong usage.
"""

import sys

from checks.attacks import encodings, memory
from checks.shared.command_line import Arguments, number, run_tool


def main() -> int:
    parser = Arguments(prog="attacks-check", description=__doc__)
    parser.add_argument("--seconds", type=number, default=120, help="how long each attack lasts")
    parser.add_argument("--only", default="", help="attacks that have this in their names, or in their listener's")
    parser.add_argument("--list", action="store_true", help="names the attacks and ends")
    options = parser.parse_args()
    holding = [attack for attack in memory.ATTACKS if options.only in str(attack)]
    forging = [attack for attack in encodings.ATTACKS if options.only in str(attack)]
    if options.list or not holding + forging:
        names = "\n".join(str(attack) for attack in [*memory.ATTACKS, *encodings.ATTACKS])
        if not options.list:
            parser.error(f"--only is '{options.only}', which is in none of these:\n{names}")
        print(names)
        return 0
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    wrong = memory.check_all(holding, options.seconds, memory.HEAP_BOUND_MIB) + encodings.check_all(forging, options.seconds)
    return 1 if wrong else 0


if __name__ == "__main__":
    run_tool(main)
