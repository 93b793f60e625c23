#!/bin/sh
# Every night: ask for labels of the day's traffic, or gate the release with those that are there.
#
#     examples/shadow/nightly.sh DAY       # DAY holds the folders old and new that serve.py wrote
#
# The first night writes DAY/to_label.csv. Label it from the first row on and save it as DAY/labelled.csv, in as many
# batches as you like: the gate keeps its level. Exit code 0: release; 3: not, or more labels are needed.
set -eu
day=$1 limit=${LIMIT:-2}
if [ ! -e "$day/to_label.csv" ]; then
  mptctl disagree "$day/old" "$day/new" --limit "$limit" --out "$day/to_label.csv"
fi
if [ ! -e "$day/labelled.csv" ]; then
  echo "label $day/to_label.csv from its first row on, and save it as $day/labelled.csv" >&2
  exit 3
fi
mptctl evaluate "$day/old" "$day/new" --labels "$day/labelled.csv" --max-flip-rate "$limit" --looks any \
  --markdown "$day/gate.md"
