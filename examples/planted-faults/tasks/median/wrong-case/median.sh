sort -n | awk '{ all[NR] = $1 } END { if (NR > 0) print all[int((NR + 1) / 2)] }'
