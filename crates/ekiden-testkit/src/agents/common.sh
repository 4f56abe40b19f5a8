#!/bin/sh
# What the agents of tests have in common that speak over their standard streams: each start is counted, messages are kept,
# and a handoff of three parts is written. In front of each of them.
n=$(cat .count 2> /dev/null || echo 0)
n=$((n + 1))
echo $n > .count
say() { printf '%s\n' "$1"; }
# The next message: its id, its method, and all of it.
hear() {
  IFS= read -r line || exit 0
  printf '%s\n' "$line" >> heard.jsonl
  id=${line#*'"id":'}
  id=${id%%[,\}]*}
  method=${line#*'"method":"'}
  method=${method%%'"'*}
}
hand_off() {
  status=IN_PROGRESS
  [ $n -ge 3 ] && status=ALL_COMPLETE
  printf '%s\n' "STATUS: $status" '' '## Done' '' 'part '$n', shown by `ls`' '' '## Stopped at' '' \
    'nothing is half done' '' '## Issues' '' 'none' > "$EKIDEN_HANDOFF/PROGRESS.md"
  printf '%s\n' '## Task' '' 'the next part' '' '## State' '' 'One part is there; the next one is not. It will' \
    'have the same form as the first, since both are read by the same program.' '' '## Resume at' '' \
    'write the part after part '$n '' '## What works' '' 'make' '' '## What to avoid' '' 'nothing so far' '' \
    '## How to verify' '' '`ls` shows the parts' > "$EKIDEN_HANDOFF/NEXT_PROMPT.md"
}
