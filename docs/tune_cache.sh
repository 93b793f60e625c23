#!/usr/bin/env bash
# What a sweep of eight values of k costs with teacher logits that are computed once, beside the same eight as
# train-mpt runs that compute them each. In both one run at a time, with all cores, so that only the cache differs.
#
#     docs/tune_cache.sh RUN_ROOT FLAGS...
#
# RUN_ROOT holds a split and the runs old and ref. FLAGS go to both, for instance
#
#     docs/tune_cache.sh runs --recipe tiny-imagenet --set optim.max_steps=300
set -euo pipefail
root=$1
shift
cores=$(nproc)
values="0 0.5 1 1.5 2 3 4 8"
rm -rf "$root/cache/teachers"
now() { date +%s.%N; }

start=$(now)
for k in $values; do
  mptctl train-mpt --run-root "$root" --k "$k" --name "alone-k$k" --overwrite --set runtime.threads="$cores" "$@" >&2
done
alone=$(now)
mptctl tune --run-root "$root" --k "${values// /,}" --name tune-cache --overwrite \
  --max-concurrent 1 --cpus-per-trial "$cores" --max-er-increase 100 "$@" >&2
swept=$(now)

awk -v a="$start" -v b="$alone" -v c="$swept" 'BEGIN {
  printf "eight train-mpt runs  %7.1f s\nsweep with the cache  %7.1f s\nratio                 %7.2f\n", b - a, c - b, (c - b) / (b - a)
}'
