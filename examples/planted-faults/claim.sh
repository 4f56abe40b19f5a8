#!/bin/sh
# An agent that does nothing but lay these trees over the project and claim that all is done.
cat > /dev/null
for tree in "$@"; do cp -R "$tree/." .; done
printf '%s\n' 'STATUS: ALL_COMPLETE' '' '## Done' '' 'all of it, shown by `sh test.sh`' '' '## Stopped at' '' \
    'nothing is half done' '' '## Issues' '' 'none' > "$EKIDEN_HANDOFF/PROGRESS.md"
