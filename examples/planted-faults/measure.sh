#!/bin/sh
# How often a reviewer finds planted faults, and how often it finds fault with what is right: see docs/evidence.md.
#
#   sh measure.sh REVIEWER [RUNS] [TASKS]
#
# REVIEWER is the name of an agent, RUNS how often each tree is reviewed (5), TASKS a directory such as `tasks` here. Only the
# reviewer costs anything: whoever "works" copies a tree and claims that all is done. `EKIDEN` names another program.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
reviewer=${1:?name a reviewer}
runs=${2:-5}
tasks=$(cd "${3:-$here/tasks}" && pwd)
out=$(mktemp -d "${TMPDIR:-/tmp}/planted-faults-XXXXXX")

# One review of a tree: kind, found, any finding, a verdict, cost in millionths of a dollar.
review() {
    task=$1 kind=$2 place=$3
    cp -R "$task/start" "$place"
    git -C "$place" init --quiet
    git -C "$place" add --all
    git -C "$place" -c user.name=measure -c user.email=measure@example.invalid commit --quiet --message start
    (cd "$place" && "${EKIDEN:-ekiden}" run "$task/task.md" --agent-command "sh '$here/claim.sh' '$task/clean' '$task/$kind'" \
        --verify 'sh test.sh' --review="$reviewer" --max-sessions 2 --no-notify --json) > "$place.jsonl" 2> "$place.err" || true
    grep '"event":"review"' "$place.jsonl" > "$place.review" || true
    verdict=$(grep -c . "$place.review" || true)
    any=$(grep -c '"place"' "$place.review" || true)
    found=0
    if [ "$kind" != clean ]; then found=$(grep -ciE -f "$task/$kind.fault" "$place.review" || true); fi
    cost=$(sed -n 's/.*"event":"run_ended".*"cost_micro_usd":\([0-9]*\).*/\1/p' "$place.jsonl")
    echo "$kind $found $any $verdict ${cost:-0}" >> "$out/reviews"
}

for task in "$tasks"/*/; do
    task=${task%/}
    for kind in clean part-missing wrong-case weakened-test; do
        run=1
        while [ "$run" -le "$runs" ]; do
            review "$task" "$kind" "$out/$(basename "$task")-$kind-$run"
            run=$((run + 1))
        done
    done
done

awk -v reviewer="$reviewer" '
    # The bounds of a rate of k in n, 95 % (Wilson).
    function wilson(k, n,    z, p, mid, half) {
        z = 1.96; p = k / n; mid = p + z * z / (2 * n); half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return sprintf("%3.0f to %3.0f %%", 100 * (mid - half) / (1 + z * z / n), 100 * (mid + half) / (1 + z * z / n))
    }
    { n[$1]++; found[$1] += $2; any[$1] += $3; verdict[$1] += $4; cost[$1] += $5 }
    END {
        printf "%s\n%-14s %5s %8s %14s %10s %8s\n", reviewer, "planted", "runs", "found", "95 %", "no verdict", "USD each"
        split("clean part-missing wrong-case weakened-test", kinds, " ")
        for (i = 1; i <= 4; i++) {
            k = kinds[i]; hits = k == "clean" ? any[k] : found[k]
            printf "%-14s %5d %8d %14s %10d %8.3f\n", k == "clean" ? "false alarms" : k, n[k], hits, wilson(hits, n[k]), n[k] - verdict[k], cost[k] / n[k] / 1e6
        }
    }' "$out/reviews"
echo "what each review said: $out"
