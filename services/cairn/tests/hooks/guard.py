#!/usr/bin/env python3
"""Blocks commands that destroy what nobody can bring back. A hook at PreToolCall for shell_exec.

Exit code 2 blocks the call, and the model reads the reason. Exit code 0 lets the call continue to the rules and the
approvals of Cairn. The list is a net for mistakes, not a fence: programs can do the same in other words.
"""

import json
import re
import sys

FORBIDDEN = [
    (r"\brm\s+(-\w+\s+)*-\w*[rR]\w*\s+(-\w+\s+)*(/|~|\$HOME)(\s|$)", "it deletes a home or root folder"),
    (r"\bgit\s+push\b.*(\s--force\b(?!-with-lease)|\s-f\b)", "it overwrites the history of others"),
    (r"\bgit\s+(reset\s+--hard|clean\s+-\w*f)", "it drops changes that are not committed"),
    (r"\b(mkfs(\.\w+)?|dd\b.*\bof=/dev/)", "it overwrites a disk"),
    (r"\b(curl|wget)\b[^|;&]*\|\s*(sudo\s+)?(ba|z)?sh\b", "it runs a program from the network unseen"),
    (r"\bchmod\s+(-\w+\s+)*777\b", "it lets everybody write"),
]


def main() -> int:
    asked = json.load(sys.stdin)
    command = asked.get("tool_input", {}).get("command", "")
    for pattern, why in FORBIDDEN:
        if re.search(pattern, command):
            print(f"this command is not run: {why}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
