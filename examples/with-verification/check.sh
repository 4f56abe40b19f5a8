#!/bin/sh
# What a slug must look like. Exit code 0 means that every case is right.
# Run it from the root of the project: sh examples/with-verification/check.sh

slug=target/with-verification/slug
failed=0

check() {
    got=$(printf '%s\n' "$1" | "$slug" 2>&1) || got="(failed) $got"
    if [ "$got" = "$2" ]; then
        echo "ok      $1"
    else
        echo "failed  $1: \`$got\` instead of \`$2\`"
        failed=1
    fi
}

check 'ekiden' 'ekiden'
check 'Hello, World!' 'hello-world'
check '  Ten   stages, two days  ' 'ten-stages-two-days'
check '217.1 km' '217-1-km'

exit "$failed"
