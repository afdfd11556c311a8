#!/bin/sh
# Tells a person that a turn ended or failed. A hook at OnTurnEnd and OnError, with
# env = ["DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "NOTIFY_FILE"].
#
# It prints nothing, so the run continues. NOTIFY_FILE names a file that gets a line for each notification.
set -eu

asked=$(cat)
message=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["message"])' "$asked")

if [ -n "${NOTIFY_FILE:-}" ]; then
  printf '%s\n' "$message" >>"$NOTIFY_FILE"
elif command -v notify-send >/dev/null; then
  notify-send Cairn "$message" || true
elif command -v osascript >/dev/null; then
  osascript -e 'on run argv' -e 'display notification (item 1 of argv) with title "Cairn"' -e 'end run' "$message" || true
fi >/dev/null
