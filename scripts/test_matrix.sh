#!/usr/bin/env bash
# Runs the tests under other numbers of threads, CPU kernels, factorisers, homes, locales and seeds, one line a configuration:
#
#   scripts/test_matrix.sh                    the whole suite
#   scripts/test_matrix.sh tests/shape        what is named alone
#   ONLY=mkl scripts/test_matrix.sh           configurations whose name contains "mkl"
#   ONLY=no-home TABLE=matrix.md scripts/...  one row, which takes the place of its last one in a Markdown table
#
# Results must not depend on any of them. The exit status is the number of configurations that are red; their logs stay.
# A configuration that no test could run in is red, too.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=$(mktemp -d -t geosim-matrix-XXXX)
red=0

run() { # run NAME VARIABLE=VALUE ... ; the arguments of the script follow from $targets
    local name=$1
    shift
    [[ $name == *"${ONLY:-}"* ]] || return 0
    local start=$SECONDS log="$logs/$name.log" result=green
    "${within[@]}" env "$@" "${PYTHON:-python}" -m pytest -p no:cacheprovider "${targets[@]:-tests}" >"$log" 2>&1 || { result=RED; red=$((red + 1)); }
    local counts seconds=$((SECONDS - start))
    counts=$(grep -oE '[0-9]+ (passed|failed|skipped|error)[a-z]*' "$log" | paste -sd, | sed 's/,/, /g')
    printf '%-28s %-6s %5d s  %s\n' "$name" "$result" "$seconds" "$counts"
    grep -E '^(FAILED|ERROR)' "$log" | cut -c1-160 | sed 's/^/    /' || true
    [ -z "${TABLE:-}" ] || row "$name" "$result" "$counts"
}

row() { # row NAME RESULT COUNTS: write it into $TABLE
    [ -s "$TABLE" ] || printf '| configuration | tests | result | counts | commit, day |\n|---|---|---|---|---|\n' >"$TABLE"
    local kept line
    line="| $1 | ${targets[*]:-all} | $2 | $3 | $(git describe --always --dirty), $(date +%F) |"
    kept=$(grep -vF "| $1 | ${targets[*]:-all} |" "$TABLE")
    printf '%s\n%s\n' "$kept" "$line" >"$TABLE"
}

# A package that cannot be written: mounted so for root, by its mode for everybody else.
read_only() {
    local copy="$logs/read-only"
    cp -r geosim "$copy-package" && mkdir "$copy" && mv "$copy-package" "$copy/geosim"
    if [ "$(id -u)" -eq 0 ]; then
        within=(unshare -m sh -c "mount --bind $copy $copy && mount -o remount,ro,bind $copy && exec \"\$@\"" sh)
    else
        chmod -R a-w "$copy"
    fi
    run read-only-package PYTHONPATH="$copy${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
    within=()
    chmod -R u+w "$copy"
}

within=()
targets=("$@")
threads() { echo "OMP_NUM_THREADS=$1 MKL_NUM_THREADS=$1 OPENBLAS_NUM_THREADS=$1 NUMBA_NUM_THREADS=$1"; }

# shellcheck disable=SC2046
run threads-1 $(threads 1)
# shellcheck disable=SC2046
run threads-2 $(threads 2)
run mkl-compatible MKL_CBWR=COMPATIBLE
run mkl-avx2 MKL_CBWR=AVX2
run openblas-haswell OPENBLAS_CORETYPE=Haswell
run openblas-nehalem OPENBLAS_CORETYPE=Nehalem
run numba-generic NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= GEOSIM_CACHE_DIR="$logs/generic"
run without-mkl PYTHONPATH="$PWD/tests/without_mkl${PYTHONPATH:+:$PYTHONPATH}"
run no-home HOME=/nonexistent XDG_CACHE_HOME= XDG_CONFIG_HOME=
run c-locale LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0
read_only
for seed in 7 2026; do
    run "hypothesis-seed-$seed" PYTEST_ADDOPTS="--hypothesis-seed=$seed"
done

echo "$red configurations are red; logs in $logs"
exit "$red"
