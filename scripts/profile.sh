#!/usr/bin/env bash
# Where the node's processor time goes, in shares of its samples: starts `sherd-node dev` for each kind
# of load, puts it under that for a few seconds, and sorts what perf saw by the part of the work that it belongs
# to. Writes <results>/profile.json, which `sherd-bench report` shows.
#
#   scripts/profile.sh <sherd-node> <sherd-bench> [results]
#
# Needs perf with leave to look at another process and the kernel (kernel.perf_event_paranoid, or root).
# SHERD_PROFILE_SECONDS is how long each load lasts (5).
set -euo pipefail

[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 125; }
node="$1" bench="$2" results="${3:-bench/results}"
seconds="${SHERD_PROFILE_SECONDS:-5}"
for tool in perf awk; do
  command -v "$tool" >/dev/null || { echo "profile: $tool is missing" >&2; exit 125; }
done

work="$(mktemp -d)"
pid=
cleanup() {
  [ -n "$pid" ] && kill -INT "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT

# What one sample belongs to: the rule that fits the frame nearest to its leaf. A sample begins with its
# thread; its frames follow, from leaf to root.
cat >"$work/sort.awk" <<'AWK'
function part(frame) {
  if (frame ~ /malloc|_int_free|[^a-z]free$|cfree|calloc|realloc|unlink_chunk/) return "allocation"
  if (frame ~ /blake3|md5|sha1|sha2|sha256|crc32|crc64|crc_fast/) return "L4 hashing"
  if (frame ~ /erasure/) return "L4 erasure code"
  if (frame ~ /tcp_|inet_|sock_|__sys_(send|recv)|skb|net_rx|ip_(queue|local|rcv|finish)|loopback|ep_poll|epoll/) return "L1 HTTP: network"
  if (frame ~ /ext4|blk_|submit_bio|fdatasync|vfs_fsync|jbd2|iomap|filemap|page_cache|virtblk|virtio|io_submit|fallocate|readahead/) return "L5 disk: file system and device"
  if (frame ~ /futex|schedule|try_to_wake_up|pick_next|finish_task_switch|sched_yield/) return "waking and switching threads"
  if (frame ~ /page_fault|do_anonymous|madvise|mmap|munmap/) return "memory of the process"
  if (frame ~ /hyper|httparse|http::|http_body|sherd_node::server/) return "L1 HTTP"
  if (frame ~ /s3s|sherd_s3|sherd_front|sherd_signature|hmac|quick_xml|percent_encoding/) return "L2 S3 protocol"
  if (frame ~ /lsm_tree|crossbeam_skiplist|sherd_volume::index/) return "L5 disk: index"
  if (frame ~ /sherd_volume|sherd_store::volumes/) return "L5 disk: log and shards"
  if (frame ~ /sherd_node|sherd_core/) return "L3 storage"
  if (frame ~ /tokio|mio::|futures|parking_lot|std::sys|std::sync/) return "runtime"
  return ""
}
function sorted(   at, found) {
  for (at = 1; at <= depth; at++) if ((found = part(stack[at])) != "") return found
  return stack[1] ~ /mem(move|cpy|set)/ ? "copying" : "other"
}
function end_sample() { if (depth) { count[sorted()]++; all++ } depth = 0 }
/^[^ \t]/ { end_sample(); next }
/^[ \t]+[0-9a-f]+ / { sub(/^[ \t]+[0-9a-f]+ /, ""); stack[++depth] = $0; next }
/^$/ { end_sample() }
END {
  end_sample()
  for (name in count) if (count[name] >= all / 200)
    printf "{\"labels\":{\"work\":\"%s\",\"part\":\"%s\"},\"figures\":{\"cpu_share\":%.4f}}\n", load, name, count[name] / all
}
AWK

start_node() { # a new one for each load: what was deleted keeps its space for a while
  rm -rf "$work/data"
  "$node" dev --dir "$work/data" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 >"$work/node.log" 2>&1 &
  pid=$!
  until grep -q 'http://127.0.0.1:[0-9]' "$work/node.log"; do
    kill -0 "$pid" 2>/dev/null || { cat "$work/node.log" >&2; exit 1; }
    sleep 0.1
  done
  endpoint="$(grep -o 'http://127.0.0.1:[0-9]*' "$work/node.log" | head -1)"
  # shellcheck source=/dev/null
  . "$work/data/credentials.env"
  export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
}

profile() { # name, operation, size, clients, keys that are written first, seconds until they are
  printf 'profile: %s\n' "$1" >&2
  start_node
  "$bench" load --endpoint "$endpoint" --op "$2" --size "$3" --clients "$4" --keys "$5" \
    --seconds "$((seconds + 4))" --warm-up 1 >"$work/load.log" 2>&1 &
  local load=$!
  sleep "$(($6 + 2))"
  perf record -F 999 -g -p "$pid" -o "$work/perf.data" -- sleep "$seconds" >"$work/perf.log" 2>&1 \
    || { cat "$work/perf.log" "$work/load.log" "$work/node.log" >&2; exit 1; }
  perf script --no-inline -i "$work/perf.data" -F comm,ip,sym 2>/dev/null | awk -v load="$1" -f "$work/sort.awk" >>"$work/rows"
  wait "$load" || { cat "$work/load.log" >&2; exit 1; }
  kill -INT "$pid"
  wait "$pid" || true
  pid=
}

profile '4 KiB PUT, 1 client' put 4KiB 1 1 0
profile '4 KiB PUT, 32 clients' put 4KiB 32 1 0
profile '4 KiB GET, 32 clients' get 4KiB 32 2000 1
profile '4 KiB HEAD, 32 clients' head 4KiB 32 2000 1
profile '1 MiB PUT, 32 clients' put 1MiB 32 1 0
profile '1 MiB GET, 32 clients' get 1MiB 32 200 1
profile '64 MiB PUT, 4 clients' put 64MiB 4 1 0
profile '64 MiB GET, 4 clients' get 64MiB 4 16 3
profile '1 GiB PUT, 1 client' put 1GiB 1 1 0
profile '1 GiB GET, 1 client' get 1GiB 1 2 5

mkdir -p "$results"
{
  printf '{"schema":1,"suite":"profile","started":%s,"settings":{' "$(date +%s)"
  printf '"commit":"%s",' "$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)"
  printf '"cpu":"%s",' "$(sed -n 's/^model name[ \t]*: //p' /proc/cpuinfo | head -1)"
  printf '"cores":"%s","kernel":"%s","seconds":"%s","durability":"fsync"},"device":{},"rows":[' \
    "$(nproc)" "$(uname -r)" "$seconds"
  paste -sd, "$work/rows"
  printf ']}\n'
} >"$results/profile.json"
printf 'written to %s/profile.json\n' "$results" >&2
