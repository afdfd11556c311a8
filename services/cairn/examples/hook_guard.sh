#!/bin/sh
# A hook in a few lines of shell: no call of shell_exec may force-push. In cairn.toml:
#
#   [[hooks]]
#   name = "guard"
#   points = ["PreToolCall"]
#   tools = ["shell_exec"]
#   command = ["sh", "services/cairn/examples/hook_guard.sh"]
#
# The question is a JSON object on standard input. Exit code 2 blocks the call, and the model reads what stands on
# standard error. Try it without a run:
#
#   cairn hook try guard --point PreToolCall --arguments '{"command": "git push --force"}'
if grep -q 'git push[^"]*--force'; then
  echo "no force pushes; ask a person to do it" >&2
  exit 2
fi
