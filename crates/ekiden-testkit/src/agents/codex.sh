# Codex's app-server, made from recorded streams of 0.169. It works until it is steered to hand off; what it does otherwise,
# FAKE says.
notice() { say '{"method":"'"$1"'","params":{"threadId":"thr_'$n'",'"$2"'}}'; }
answer() { say '{"id":'$id',"result":'"$1"'}'; }
call() {
  item='"item":{"type":"commandExecution","id":"c'$1'","command":"/bin/bash -lc '"'make part$1'"'","cwd":"'"$PWD"'"'
  notice item/started "$item"',"status":"inProgress"}'
  notice item/completed "$item"',"status":"completed","exitCode":0,"aggregatedOutput":"'"$2"'"}'
}
usage() {
  notice thread/tokenUsage/updated '"turnId":"u'$n'","tokenUsage":{"total":{"inputTokens":900000,"outputTokens":900,"cachedInputTokens":0,"reasoningOutputTokens":0,"totalTokens":900900},"last":{"inputTokens":'$1',"cachedInputTokens":1000,"outputTokens":50,"reasoningOutputTokens":0,"totalTokens":'$1'},"modelContextWindow":200000}'
}
told() { notice item/started '"item":{"type":"userMessage","id":"m'$1'","clientId":"'"$client"'","content":[]}'; }
turn_over() { notice turn/completed '"turn":{"id":"u'$n'","status":"'$1'","error":'"${2:-null}"'}'; }
client_of() {
  client=${line#*'"clientUserMessageId":"'}
  client=${client%%'"'*}
}
hear # initialize
answer '{"userAgent":"ekiden/0.169.0"}'
hear # initialized
hear # thread/start or thread/resume
[ "$method" = thread/resume ] && echo resumed > resumed.txt
answer '{"thread":{"id":"thr_'$n'"},"model":"gpt-fake"}'
hear # turn/start
client_of
answer '{"turn":{"id":"u'$n'","status":"inProgress"}}'
notice turn/started '"turn":{"id":"u'$n'"}'
told 1
if [ "$FAKE" = reviews ]; then
  notice item/completed '"item":{"type":"agentMessage","id":"a","text":"{\"verdict\": \"pass\", \"findings\": []}"}'
  turn_over completed
  hear
fi
if [ "$FAKE" = no-login ]; then
  turn_over failed '{"message":"Unauthorized","codexErrorInfo":"unauthorized"}'
  hear
fi
if [ "$FAKE" = limited ] && [ $n = 1 ]; then
  notice account/rateLimits/updated '"rateLimits":{"primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":'$(($(date +%s) + 18000))'},"secondary":null}'
  turn_over failed '{"message":"You hit your usage limit.","codexErrorInfo":"usageLimitExceeded"}'
  hear
fi
if [ "$FAKE" = asks ]; then
  ask() {
    say '{"id":"ask-'$1'","method":"item/commandExecution/requestApproval","params":{"threadId":"thr_'$n'","itemId":"'$1'","command":"'"$2"'","cwd":"'"$PWD"'"}}'
    hear
  }
  ask ruled "/bin/bash -lc 'make all'"
  ask unruled "/bin/bash -lc 'make all; rm -rf /'"
fi
if [ "$FAKE" = killed ] && [ $n = 1 ]; then
  call 1 ok
  usage 60000
  kill -9 $$
fi
if [ "$FAKE" = grandchild ]; then
  (trap '' TERM; sleep 1000) &
  sleep 1000 &
fi
text=ok
[ "$FAKE" = huge ] && text=$(head -c 6000000 /dev/zero | tr '\0' x)
call 1 "$text"
usage 60000
call 2 "$text"
usage 120000
call 3 "$text"
usage 185000
hear # the order: turn/steer
client_of
answer '{"turnId":"u'$n'"}'
told 2
[ "$FAKE" = deaf ] || hand_off
call 4 ok
usage 186000
turn_over completed
while hear; do
  client_of
  answer '{"turn":{"id":"v","status":"inProgress"}}'
  notice turn/started '"turn":{"id":"v"}'
  told 3
  turn_over completed
done
