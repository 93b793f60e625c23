#!/usr/bin/env bash
# What a sweep of eight values of k costs with teacher logits that are computed once, beside the same eight as
# train-mpt runs that compute them each. In both one run at a time, with all cores, so that only the cache differs.
# Four of the eight are run before the sweep and four after it: a machine that grows slower does so for both.
#
#     docs/tune_cache.sh RUN_ROOT FLAGS...
#
# RUN_ROOT holds a split and the runs old and ref. FLAGS go to both, for instance
#
#     docs/tune_cache.sh runs --recipe tiny-imagenet --set optim.max_steps=300
set -euo pipefail
root=$1
shift
flags=("$@")
cores=$(nproc)
rm -rf "$root/cache/teachers"
now() { date +%s.%N; }
alone() {
  for k in "$@"; do
    mptctl train-mpt --run-root "$root" --k "$k" --name "alone-k$k" --overwrite \
      --set runtime.threads="$cores" "${flags[@]}" >&2
  done
}

start=$(now)
alone 0 1 2 4
first=$(now)
mptctl tune --run-root "$root" --k 0,0.5,1,1.5,2,3,4,8 --name tune-cache --overwrite \
  --max-concurrent 1 --cpus-per-trial "$cores" --max-er-increase 100 "${flags[@]}" >&2
swept=$(now)
alone 0.5 1.5 3 8
end=$(now)

awk -v a="$start" -v b="$first" -v c="$swept" -v d="$end" 'BEGIN {
  alone = b - a + d - c
  printf "eight train-mpt runs  %7.1f s (%.1f before, %.1f after)\n", alone, b - a, d - c
  printf "sweep with the cache  %7.1f s\nratio                 %7.2f\n", c - b, (c - b) / alone
}'
