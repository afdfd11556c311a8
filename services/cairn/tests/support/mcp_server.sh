# A server of the Model Context Protocol 2026-07-28 over stdio. Each effect is a line of `effects`.
effect() { printf '%s\n' "$1" >> effects; }
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
said() { answer "{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
tool() { printf '{"name":"%s","description":"%s","inputSchema":{"type":"object","properties":{"env":{"type":"string"}}}}' "$1" "$2"; }

while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  key=$(printf '%s' "$line" | sed -n 's/.*"dev.cairn\/idempotency-key":"\([^"]*\)".*/\1/p')
  case "$line" in
  *'"method":"server/discover"'*)
    answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{}}}' ;;
  *'"method":"tools/list"'*)
    about=$(cat about 2>/dev/null || printf 'Deploys.')
    answer "{\"resultType\":\"complete\",\"ttlMs\":3600000,\"cacheScope\":\"private\",\"tools\":[$(tool deploy "$about"),$(tool restart Restarts.)]}" ;;
  *'"method":"tools/call"'*'"name":"restart"'* | *'"name":"restart"'*'"method":"tools/call"'*)
    effect "restart $key"
    token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([^,}]*\).*/\1/p')
    far=0
    # The test says when the call may end.
    while [ -e hold ]; do
      far=$((far + 1))
      [ -z "$token" ] || printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s,"total":1000,"message":"at it"}}\n' "$token" "$far"
      printf . >> steps
      sleep 0.02
    done
    said restarted ;;
  *'"method":"tools/call"'*'"requestState":"state-1"'* | *'"requestState":"state-1"'*'"method":"tools/call"'*)
    case "$line" in
    *'"confirm":true'*) effect "deploy $key"; said deployed ;;
    *) said 'left alone' ;;
    esac ;;
  *'"method":"tools/call"'*)
    answer '{"resultType":"input_required","requestState":"state-1","inputRequests":{"sure":{"method":"elicitation/create","params":{"mode":"form","message":"Deploy to prod?","requestedSchema":{"type":"object","required":["confirm"],"properties":{"confirm":{"type":"boolean"}}}}}}}' ;;
  *) [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not known"}}\n' "$id" ;;
  esac
done
