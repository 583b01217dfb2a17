#!/usr/bin/env bash
# Prints the folder with the programs `prometheus` and `promtool`: those that are installed, or Debian's, of whose
# package the programs alone are unpacked below FOLDER, so that no service starts. Ends with 1 where there is neither.
#
#   scripts/prometheus.sh FOLDER
set -euo pipefail

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
  dirname "$(command -v promtool)"
  exit 0
fi
programs="$1/prometheus/usr/bin"
if [ ! -x "$programs/promtool" ]; then
  command -v apt-get >/dev/null || exit 1
  mkdir -p "$1"
  cd "$1"
  download() { apt-get download -qq prometheus >/dev/null 2>&1; }
  # A machine that never installed a package has no lists of them.
  download || { apt-get update -qq >/dev/null 2>&1 && download; } || exit 1
  dpkg -x prometheus_*.deb prometheus
fi
echo "$programs"
