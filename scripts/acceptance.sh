#!/usr/bin/env bash
# The promises of the README, kept by hand: the aws command line against a fresh `sherd-node dev`.
# Makes a bucket, copies a large object up and down and compares its SHA-256, syncs a tree of small
# files there and back, lists, removes, asks for metrics and health, stops the node, and starts it
# again on what it left. Ends with one line per promise; the exit code is the number of broken ones.
#
#   scripts/acceptance.sh [path of sherd-node]
#
# SHERD_ACCEPTANCE_MIB is the size of the large object (1024), SHERD_ACCEPTANCE_FILES the number of
# small files (2000). Needs aws, curl and about four times the large object in TMPDIR.
set -uo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
node="${1:-${CARGO_TARGET_DIR:-$here/target}/release/sherd-node}"
mebibytes="${SHERD_ACCEPTANCE_MIB:-1024}"
files="${SHERD_ACCEPTANCE_FILES:-2000}"

for tool in aws curl sha256sum; do
  command -v "$tool" >/dev/null || { echo "acceptance: $tool is missing" >&2; exit 125; }
done
[ -x "$node" ] || { echo "acceptance: no binary at $node: cargo build --release" >&2; exit 125; }

work="$(mktemp -d)"
pid=
cleanup() {
  [ -n "$pid" ] && kill -9 "$pid" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT

broken=0
check() {
  local promise="$1" begin=$SECONDS
  shift
  if "$@" >"$work/said" 2>&1; then
    printf 'kept    %3d s  %s\n' $((SECONDS - begin)) "$promise"
  else
    printf 'BROKEN  %3d s  %s\n' $((SECONDS - begin)) "$promise"
    sed 's/^/        | /' "$work/said" | tail -n 20
    broken=$((broken + 1))
  fi
}

# Starts the node and takes its addresses from what it prints.
start() {
  : >"$work/out"
  "$node" dev --log --dir "$work/data" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 >"$work/out" 2>>"$work/log" &
  pid=$!
  local deadline=$((SECONDS + 60))
  until grep -q 'Admin listening on' "$work/out"; do
    if ! kill -0 "$pid" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
      echo 'acceptance: the node does not start:' >&2
      tail -n 20 "$work/log" >&2
      exit 125
    fi
    sleep 0.05
  done
  s3="$(sed -n 's/^S3 listening on //p' "$work/out")"
  admin="$(sed -n 's/^Admin listening on //p' "$work/out")"
  set -a
  # shellcheck disable=SC1091
  . "$work/data/credentials.env"
  set +a
}

stop() {
  kill -INT "$pid" && wait "$pid"
  local code=$?
  pid=
  return "$code"
}

s3() {
  aws --endpoint-url "$s3" --region us-east-1 s3 "$@"
}

same_sum() {
  [ "$(sha256sum <"$1")" = "$(sha256sum <"$2")" ]
}

lists() {
  local found
  found="$(s3 ls --recursive "$1" | wc -l)"
  [ "$found" -eq "$2" ] || { echo "$found keys, not $2"; return 1; }
}

answers() {
  local body
  body="$(curl --silent --show-error --fail --max-time 10 "$admin$1")" && grep -q "$2" <<<"$body"
}

# Down on disk first, so that what comes back is compared with what was meant.
head -c $((mebibytes << 20)) /dev/urandom >"$work/large"
mkdir -p "$work/tree"
for ((n = 0; n < files; n++)); do
  folder="$work/tree/$((n % 40))/$((n % 7))"
  [ -d "$folder" ] || mkdir -p "$folder"
  head -c $((n * 37 % 20000)) /dev/urandom >"$folder/file $n.bin"
done

start
export AWS_EC2_METADATA_DISABLED=true AWS_PAGER=
check 'a bucket is made' s3 mb s3://demo
check "$mebibytes MiB go up" s3 cp --no-progress "$work/large" s3://demo/large
check "$mebibytes MiB come down" s3 cp --no-progress s3://demo/large "$work/back"
check 'with the same SHA-256' same_sum "$work/large" "$work/back"
rm -f "$work/back"
check "a tree of $files files is synced up" s3 sync --no-progress "$work/tree" s3://demo/tree
check 'and synced down' s3 sync --no-progress s3://demo/tree "$work/tree-back"
check 'and is the same' diff -r "$work/tree" "$work/tree-back"
check 'a listing shows each key once' lists s3://demo/tree/ "$files"
check 'a second sync finds nothing to do' test -z "$(s3 sync --no-progress "$work/tree" s3://demo/tree)"
check 'the node is live' answers /health/live live
check 'the node is ready' answers /health/ready '"ready":true'
check 'metrics count the requests' answers /metrics '^sherd_s3_requests_total{api="PutObject",code="200"}'
check 'the node stops when asked' stop
start
check 'and has everything after a start' lists s3://demo/ $((files + 1))
check 'the large object too' s3 cp --no-progress s3://demo/large "$work/back"
check 'with its bytes' same_sum "$work/large" "$work/back"
check 'everything is removed' s3 rm --quiet --recursive s3://demo
check 'and gone' lists s3://demo/ 0
check 'the empty bucket goes too' s3 rb s3://demo
check 'the node stops again' stop
if "$node" inspect --help >/dev/null 2>&1; then
  check 'the volumes verify' "$node" inspect --verify "$work"/data/v*
fi

if [ "$broken" -eq 0 ]; then
  echo 'every promise was kept'
else
  echo "$broken promises were broken; the end of the node's log:"
  tail -n 20 "$work/log"
fi
exit "$broken"
