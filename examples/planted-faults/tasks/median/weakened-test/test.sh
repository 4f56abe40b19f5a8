set -e
[ "$(printf '3\n1\n2\n' | sh median.sh)" = 2 ]
[ "$(printf '4\n1\n3\n2\n' | sh median.sh)" = 2 ]
