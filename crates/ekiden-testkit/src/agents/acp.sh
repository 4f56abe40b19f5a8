# An agent that speaks the Agent Client Protocol, made from recorded streams (opencode 1.18, codex-acp 2.6,
# claude-agent-acp 0.49). It works until it is ordered to hand off; what it does otherwise, FAKE says.
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"ses_'$n'","update":'"$1"'}}'; }
answer() { say '{"jsonrpc":"2.0","id":'$id',"result":'"$1"'}'; }
call() {
  update '{"sessionUpdate":"tool_call","toolCallId":"c'$1'","title":"bash","kind":"execute","status":"pending","rawInput":{}}'
  update '{"sessionUpdate":"tool_call_update","toolCallId":"c'$1'","status":"in_progress","kind":"execute","rawInput":{"command":"make part'$1'"}}'
  update '{"sessionUpdate":"tool_call_update","toolCallId":"c'$1'","status":"completed","content":[{"type":"content","content":{"type":"text","text":"'"$2"'"}}],"rawOutput":{"metadata":{"exit":0}}}'
}
usage() {
  [ "$FAKE" = untold ] || update '{"sessionUpdate":"usage_update","used":'$1',"size":200000,"cost":{"amount":0.5,"currency":"USD"}}'
}
hear # initialize
steering=false
[ "$FAKE" = steers ] && steering=true
answer '{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}},"agentInfo":{"name":"'"${NAME:-fake}"'","version":"1"},"_meta":{"steering":{"supported":'$steering'}}}'
hear # session/new or session/resume
if [ "$FAKE" = no-login ]; then
  say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32000,"message":"Authentication required"}}'
  hear
fi
answer '{"sessionId":"ses_'$n'"}'
hear # the first prompt
first=$id
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I work"}}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" on it."}}'
if [ "$FAKE" = reviews ]; then
  update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"{\"verdict\": \"pass\", \"findings\": []}"}}'
  id=$first
  answer '{"stopReason":"end_turn"}'
  hear
fi
if [ "$FAKE" = limited ] && [ $n = 1 ]; then
  say '{"jsonrpc":"2.0","id":'$first',"error":{"code":-32603,"message":"Internal error","data":{"statusCode":429}}}'
  hear
fi
if [ "$FAKE" = asks ]; then
  ask() {
    update '{"sessionUpdate":"tool_call","toolCallId":"'$1'","title":"'$1'","kind":"'$2'","status":"pending","rawInput":'"$3"'}'
    say '{"jsonrpc":"2.0","id":"ask-'$1'","method":"session/request_permission","params":{"sessionId":"ses_'$n'","toolCall":{"toolCallId":"'$1'"},"options":[{"optionId":"yes","kind":"allow_once","name":"Yes"},{"optionId":"ever","kind":"allow_always","name":"Always"},{"optionId":"no","kind":"reject_once","name":"No"}]}}'
    hear
    update '{"sessionUpdate":"tool_call_update","toolCallId":"'$1'","status":"completed"}'
  }
  ask handoff edit '{"file_path":"'"$EKIDEN_HANDOFF"'/PROGRESS.md"}'
  ask published edit '{"file_path":"'"$PWD"'/.ekiden/PROGRESS.md"}'
  ask both edit '{"file_path":"'"$EKIDEN_HANDOFF"'/PROGRESS.md","path":"/etc/passwd"}'
  ask ruled execute '{"command":"make all"}'
  ask unruled execute '{"command":"make all; rm -rf /"}'
  say '{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}'
  hear
  say '{"jsonrpc":"2.0","id":8,"method":"terminal/create","params":{"command":"sh"}}'
  hear
fi
if [ "$FAKE" = grandchild ]; then
  (trap '' TERM; sleep 1000) &
  sleep 1000 &
fi
if [ "$FAKE" = killed ] && [ $n = 1 ]; then
  call 1 ok
  usage 60000
  kill -9 $$
fi
text=ok
if [ "$FAKE" = huge ]; then
  text=$(head -c 6000000 /dev/zero | tr '\0' x)
fi
if [ "$FAKE" = untold ]; then
  # Three bytes are a token: this is more than the window's part that a session may use.
  text=$(head -c 250000 /dev/zero | tr '\0' x)
fi
call 1 "$text"
usage 60000
call 2 "$text"
usage 120000
call 3 "$text"
usage 185000
hear # the order: steered, as a prompt, or after a cancel
case $method in
session/cancel)
  id=$first
  answer '{"stopReason":"cancelled"}'
  hear
  ;;
_session/steering)
  answer '{"outcome":"injected"}'
  id=$first
  ;;
esac
last=$id
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I hand off."}}'
if [ "$FAKE" != deaf ]; then
  hand_off
fi
call 4 ok
[ "$FAKE" = joins ] && id=$first && answer '{"stopReason":"end_turn"}'
id=$last
answer '{"stopReason":"end_turn","usage":{"inputTokens":1000,"outputTokens":100,"cachedReadTokens":184000,"totalTokens":185100}}'
while hear; do
  update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"No."}}'
  [ "$method" = session/prompt ] && answer '{"stopReason":"end_turn"}'
done
