#!/bin/sh
# Formats a file that a model wrote or edited. A hook at PostToolCall for write_file and edit_file.
#
# The model reads that its file was formatted, because a file that it has not read as it is cannot be edited. A formatter
# that is not installed, or a file that it cannot read, changes nothing.
set -eu

field() { python3 -c 'import json, sys; print(json.loads(sys.argv[1])'"$1"')' "$asked"; }

asked=$(cat)
[ "$(field '["is_error"]')" = False ] || exit 0
path=$(field '["tool_input"].get("path", "")')
[ -f "$path" ] || exit 0

before=$(cksum <"$path")
case $path in
  *.json)
    if python3 -m json.tool --indent 2 "$path" "$path.formatted" 2>/dev/null; then
      cat "$path.formatted" >"$path"
    fi
    rm -f "$path.formatted"
    ;;
  *.rs) command -v rustfmt >/dev/null && rustfmt --quiet "$path" || true ;;
  *.py) command -v black >/dev/null && black --quiet "$path" || true ;;
  *.ts | *.js | *.css) command -v prettier >/dev/null && prettier --log-level silent --write "$path" || true ;;
esac
[ "$before" != "$(cksum <"$path")" ] || exit 0

python3 - "$path" <<'END'
import json, sys
note = f"{sys.argv[1]} was formatted. Read it before you edit it again."
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": note}}))
END
