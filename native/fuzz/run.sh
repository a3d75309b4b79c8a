#!/bin/sh
# Fuzzes every target (or those named) for SECONDS each, one after the other, and says what came of it.
#   run.sh [SECONDS [TARGET...]]      needs cargo-fuzz and a nightly compiler
# What is found stays in the corpora; an input that crashes is left in artifacts/ and ends the run.
set -eu
cd "$(dirname "$0")"
seconds=${1:-1800}
[ $# -eq 0 ] || shift
targets=${*:-$(cargo +nightly fuzz list)}
for target in $targets; do
    cargo +nightly fuzz build "$target" >/dev/null 2>&1 || { echo "$target: does not build" >&2; exit 1; }
    mkdir -p "artifacts/$target" "corpus/$target"
    log=$(mktemp)
    binary=target/$(rustc -vV | sed -n 's/^host: //p')/release/$target
    # Without a network: host names in a configuration are looked up nowhere.
    if ! nice -n 19 unshare -rn "$binary" -artifact_prefix="artifacts/$target/" -max_len=4096 -rss_limit_mb=1024 \
        -timeout=10 -max_total_time="$seconds" -print_final_stats=1 "corpus/$target" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        echo "$target: found an input that breaks it (artifacts/$target)" >&2
        exit 1
    fi
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)
    peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
    echo "$target: $seconds s, $executed inputs, $coverage, peak $peak MB, $(ls "corpus/$target" | wc -l) files"
    rm -f "$log"
done
