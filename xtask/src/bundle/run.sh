#!/usr/bin/env bash
# Runs the bundle on a machine with a GPU. Needs the driver and NVRTC, which Python's packages may
# bring; no Rust, no network. A part writes report/PART.json as it goes: what was run, how it ended,
# how long it took, and what it printed.
set -u
shopt -s nullglob

usage() {
    cat <<'TEXT'
usage: ./run.sh [PART]...    without a part: all of them

  parity    GPU tests, random bodies among them; both bodies of every environment, bit for bit
  gradients of every environment's default networks, against the CPU's and finite differences
  replay    recorded cases on the GPU
  sanitize  compute-sanitizer (memcheck, racecheck) over every environment's kernels
  samplers  GPU tests of the samplers, and their times
  bench     environment steps per second
  train     training throughput with learning curves (report/curves), and a run to a score
  map       training over environments, networks, replicas and algorithms as a fraction of the GPU's limit (report/map.json)
  scaling   training on 2, 4, 8 .. GPUs beside one, fleets, and JAX if there (report/scaling); needs two GPUs
  ranks     that several GPUs learn the same, lose a rank cleanly and go on; needs two GPUs
  libtorch  training through LibTorch: its rate, and its returns beside the processor's
  package   the Python package's tests for a GPU; needs NumPy, and torch, JAX or CuPy for what is handed to them
  notebooks of the Python package, as many as there are GPUs for; needs NumPy
  profile   Nsight Compute over the main kernels

REPORT=DIR  where reports go (report)      LIMIT=SECONDS  of one part at most (460)
ROWS=GLOB   rows of train, scaling, ranks and profile, by name (*)
CURVE_SECONDS=SECONDS    of one curve at most (1)
SCALING_SECONDS=SECONDS  of one row of scaling (3)
GPUS=LIST   numbers of GPUs of scaling (2, 4, 8 .. and all)
PRECISIONS=LIST  of train (fp16 fp32)
TEXT
}

parts=(parity gradients replay sanitize samplers bench train map scaling ranks libtorch package notebooks profile)
chosen=("$@")
for argument in "$@"; do
    case " ${parts[*]} " in
        *" $argument "*) ;;
        *) if [ "$argument" = --help ] || [ "$argument" = -h ]; then usage; exit 0; fi
           echo "there is no part \"$argument\": ${parts[*]}" >&2
           exit 2 ;;
    esac
done
[ "${#chosen[@]}" -gt 0 ] || chosen=("${parts[@]}")

cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
report="${REPORT:-$PWD/report}"
limit="${LIMIT:-460}"
scratch="$(mktemp -d)" || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$report" || exit 1
# Always, so that parts of an older bundle are never run.
[ ! -f parts.tar.gz ] || tar -xzf parts.tar.gz || exit 1
chmod +x bin/* tests/* 2>/dev/null
# Compiled kernels of this bundle, so that no old ones are measured.
export WARP_CACHE="${WARP_CACHE:-$scratch/kernels}"
# Random bodies, for the test cuda_bits.
export WARP_BITS="$PWD/bits"

# Libraries of Python's packages: NVRTC, NCCL, LibTorch and what it needs.
find_libraries() {
    command -v python3 >/dev/null || return 0
    local found
    found="$(python3 - <<'PYTHON'
import glob, os, sys
folders = []
for site in dict.fromkeys(path for path in sys.path if path):
    for pattern in ("torch/lib", "nvidia/*/lib"):
        folders += sorted(glob.glob(os.path.join(site, pattern)))
print(":".join(folders))
PYTHON
)" || return 0
    [ -z "$found" ] || export LD_LIBRARY_PATH="$found${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# json_text FILE LINES: the file's last lines as a JSON string.
json_text() {
    tail -n "$2" "$1" | LC_ALL=C tr -d '\000-\010\013-\037\177-\377' |
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/    /g' |
        awk 'BEGIN { printf "\"" } { printf "%s%s", (NR > 1 ? "\\n" : ""), $0 } END { printf "\"" }'
}

# is_json FILE: whether it holds one object.
is_json() {
    [ "$(head -c 1 "$1")" = "{" ] && [ "$(tail -c 2 "$1" | head -c 1)" = "}" ]
}

# write_report: all results so far, complete at every moment.
write_report() {
    local seconds=$((SECONDS - part_start))
    {
        printf '{\n"part": "%s",\n"seconds": %d,\n"failed": %d,\n' "$part" "$seconds" "$failed"
        printf '"machine": %s,\n"results": [\n' "$machine"
        cat "$results"
        printf ']\n}\n'
    } >"$report/$part.json.new" && mv "$report/$part.json.new" "$report/$part.json"
}

# try NAME COMMAND...: runs the command in what is left of the part's time and writes down what came
# of it; LINES_KEPT of its text are kept, and a JSON object goes to the report's file KEEP if that is set.
try() {
    local name="$1" start="$SECONDS" code=0 outcome=passed out="$scratch/out" err="$scratch/err"
    shift
    local left=$((limit - (start - part_start)))
    if [ "$left" -lt 3 ]; then
        outcome="out of time" code=-1
        : >"$out" >"$err"
    else
        timeout -k 5 "$left" "$@" >"$out" 2>"$err" </dev/null || code=$?
        [ "$code" -eq 0 ] || outcome=failed
        # Tests that were all ignored, for want of a library, say, have shown nothing.
        ! grep -q '^test result: ok. 0 passed' "$out" || outcome="nothing ran" code=1
    fi
    [ "$code" -eq 0 ] || failed=$((failed + 1))
    {
        [ ! -s "$results" ] || printf ',\n'
        printf '{"name": "%s", "outcome": "%s", "exit": %d, "seconds": %d,\n' \
            "$name" "$outcome" "$code" $((SECONDS - start))
        printf '%s\n' "$*" >"$scratch/line"
        printf '"command": %s,\n' "$(json_text "$scratch/line" 1)"
        if [ -n "${KEEP:-}" ] && is_json "$out"; then
            mkdir -p "$(dirname "$report/$KEEP")"
            cp "$out" "$report/$KEEP"
            printf '"output": "%s"' "$KEEP"
        elif is_json "$out"; then
            printf '"output": '
            cat "$out"
        else
            printf '"output": %s' "$(json_text "$out" "${LINES_KEPT:-60}")"
        fi
        printf ',\n"errors": %s}\n' "$(json_text "$err" 40)"
    } >>"$results"
    printf '%-9s %-44s %s, %d s\n' "$part" "$name" "$outcome" $((SECONDS - start))
    write_report
    return "$code"
}

# missing PROGRAM PLACE: writes down that a program is not there.
missing() {
    try "$1" sh -c "echo '$1 is not $2' >&2; exit 127"
}

# tool PROGRAM: where it lies.
tools="on the PATH or in /usr/local/cuda/bin"
tool() {
    command -v "$1" || { [ -x "/usr/local/cuda/bin/$1" ] && echo "/usr/local/cuda/bin/$1"; }
}

# gpu_tests PATTERN [THREADS]: runs the tests named cuda_* of the binaries that match, one after the
# other, or several at once, since most of their time goes into compiling.
gpu_tests() {
    local binary
    for binary in tests/*; do
        # shellcheck disable=SC2053
        [[ "$(basename "$binary")" == $1 ]] || continue
        try "tests of $(basename "$binary")" "$binary" cuda_ --test-threads="${2:-1}" --nocapture
    done
}

# short ENV STEPS [PREFIX]: what ends episodes after so many steps, where that can be asked for.
short() {
    case "$1" in
        blackjack | catch | rice_n) ;;
        *) echo "--set ${3:-}episode_length=$2" ;;
    esac
}

# Two whole episodes of few replicas; many replicas, in short episodes, so that some end and begin
# anew meanwhile; crowds of agents, which share more of a block than a few do.
part_parity() {
    local env taggers runners
    gpu_tests '*' 4
    for env in $envs; do
        try "$env" bin/warp parity "$env" --json
        # shellcheck disable=SC2046
        try "$env, 10,000 replicas" bin/warp parity "$env" --envs 10000 --steps 60 \
            $(short "$env" 25) --json
    done
    while read -r taggers runners; do
        try "tag_continuous, $((taggers + runners)) agents" bin/warp parity tag_continuous --envs 8 \
            --steps 3 --set "num_taggers=$taggers" --set "num_runners=$runners" \
            --set episode_length=2 --json
    done <<<$'50 950\n250 4750'
}

part_gradients() {
    local env
    for env in $envs; do
        try "$env" bin/warp gradcheck "$env" --device cuda --json
    done
    [ ! -x bin/warp-tch ] || try "cartpole, LibTorch" bin/warp-tch gradcheck cartpole --device cuda --json
}

part_replay() {
    local folder data=()
    [ ! -d data ] || data=(--data data)
    while read -r folder; do
        try "${folder#golden/}" bin/warp replay --device cuda --json ${data[@]+"${data[@]}"} \
            "$folder"/*.npz
    done < <(find golden -name '*.npz' -printf '%h\n' | sort -u)
}

# sanitized NAME COMMAND...: under both of compute-sanitizer's tools.
sanitized() {
    local name="$1" check
    shift
    for check in memcheck racecheck; do
        try "$name, $check" "$sanitizer" --tool "$check" --error-exitcode 9 "$@"
    done
}

# Steps and resets as a learner calls them, of long episodes and of some that end inside a step; steps
# that share a launch and draw their own actions; the samplers.
part_sanitize() {
    local env binary sanitizer
    sanitizer="$(tool compute-sanitizer)" || { missing compute-sanitizer "$tools"; return; }
    for env in $envs; do
        sanitized "$env" bin/warp parity "$env" --envs 65 --steps 20
        # shellcheck disable=SC2046
        sanitized "$env, restarts" bin/warp parity "$env" --envs 65 --steps 20 $(short "$env" 6)
        # shellcheck disable=SC2046
        sanitized "$env, cycles" bin/warp bench "$env" --device cuda --envs 65 --steps 20 \
            $(short "$env" 6 env.)
    done
    for binary in tests/*sample*; do
        sanitized "$(basename "$binary")" "$binary" cuda_ --test-threads=1
    done
}

part_samplers() {
    WARP_BENCH=1 LINES_KEPT=400 gpu_tests '*sampl*'
}

# steps ENV REPLICAS STEPS [ARGUMENT]...: environment steps per second, so many steps a launch.
steps() {
    local env="$1" replicas="$2" count="$3"
    shift 3
    try "$env, $replicas replicas${*:+, $*}" bin/warp bench "$env" --device cuda \
        --envs "$replicas" --steps "$count" --json "$@"
}

# The rows of docs/benchmarks.md; where it takes no long time on a processor, the state after the
# steps is compared with the processor's.
part_bench() {
    local n env crowd tag=(--set env.episode_length=500 --set env.num_acceleration_levels=20
        --set env.num_turn_levels=20) few=(--set env.num_taggers=5 --set env.num_runners=100)
    steps cartpole 10000 1000 --check
    for n in 100000 1000000; do steps cartpole "$n" 1000; done
    for env in acrobot mountain_car continuous_mountain_car pendulum; do steps "$env" 1000000 200; done
    steps catalysis 1000000 1000
    steps covid19 2000 100
    for n in 60 2000 10000; do steps tag_gridworld "$n" 1000 --check; done
    crowd=(--set env.num_taggers=999 --set env.grid_length=100 --set env.use_full_observation=false)
    steps tag_gridworld 2000 100 "${crowd[@]}"
    for n in 60 2000 10000; do steps tag_continuous "$n" 60 "${tag[@]}" "${few[@]}" --check; done
    steps tag_continuous 2000 60 "${tag[@]}" "${few[@]}" --set env.use_full_observation=true
    steps tag_continuous 2000 20 "${tag[@]}" --set env.num_taggers=50 --set env.num_runners=950
}

# wanted NAME: whether a row is to be measured.
wanted() {
    # shellcheck disable=SC2053
    [[ "$1" == ${ROWS:-*} ]]
}

# row NAME REPLICAS STEPS ARGUMENT...: rate and learning curves of five seeds, in both precisions.
row() {
    local name="$1-$2" replicas="$2" steps="$3" precision
    shift 3
    wanted "$name" || return 0
    for precision in ${PRECISIONS:-fp16 fp32}; do
        KEEP="curves/$name-$precision.json" try "$name, $precision" bin/warp bench "$@" --train \
            --device cuda --replicas "$replicas" --seconds 1 --json --set "precision=$precision" \
            --curve-steps "$steps" --curve-seconds "${CURVE_SECONDS:-1}"
    done
}

# solved ARGUMENT...: run time until cartpole's return is 475, and the time of a whole process with one
# seed and kernels kept from the run before.
solved() {
    local until=(bin/warp bench cartpole --train --device cuda --until 475 --json
        --set total_steps=5000000)
    wanted solved || return 0
    KEEP=curves/solved.json try "cartpole solved, $*" "${until[@]}" "$@"
    # shellcheck disable=SC2016
    KEEP=curves/solved-process.json try "the same, process of one seed" bash -c 'begin="$(date +%s%N)"
        "$@" --seeds 1 >"$0" || exit; ms=$((($(date +%s%N) - begin) / 1000000))
        printf "{\"process_ms\": %d, \"run\": %s}\n" "$ms" "$(cat "$0")"' \
        "$scratch/solved" "${until[@]}" "$@"
    try "cartpole solved, the peer's settings" "${until[@]}" --replicas 256 --set num_steps=128 \
        --set learning_rate=3e-3
}

part_train() {
    local n steps own=run_configs ppo=(cartpole --set num_steps=128 --set learning_rate=3e-3) tag
    solved --replicas 256 --set num_steps=64 --set learning_rate=0.0136 --set gamma=0.99 \
        --set gae_lambda=0.95 --set clip_coef=0.3 --set max_grad_norm=2 --set vf_coef=0.5
    row ppo-cartpole 4 500000 cartpole --set num_steps=128 --set gamma=0.99 --set gae_lambda=0.95 \
        --set ent_coef=0.01 --set clip_vloss=true --set 'learning_rate=[[0,2.5e-4],[500000,0]]'
    for n in 256 2048 16384 65536; do row ppo-cartpole "$n" $((n * 128 * 60)) "${ppo[@]}"; done
    row ppo-cartpole-shared 4096 200000000 cartpole --set num_steps=32 --set update_epochs=1 \
        --set num_minibatches=1 --set shared_trunk=true \
        --set 'learning_rate=[[0,2e-3],[200000000,0]]'
    while read -r n steps; do
        row a2c-cartpole "$n" "$steps" $own/single_cartpole.yaml --set num_steps=100
        row a2c-acrobot "$n" $((steps / 2)) $own/single_acrobot.yaml --set num_steps=100
    done <<<$'100 20000000\n1000 200000000\n10000 2000000000\n100000 8000000000'
    for n in 2000 10000; do
        row a2c-tag_gridworld "$n" $((n * 100 * 1000)) $own/tag_gridworld.yaml --set num_steps=100
    done
    tag=(6000000 $own/tag_continuous.yaml --set env.num_taggers=5 --set env.num_acceleration_levels=10
        --set env.num_turn_levels=10)
    row a2c-tag_continuous 60 "${tag[@]}" --set num_steps=416
    row a2c-tag_continuous 500 "${tag[@]}" --set num_steps=50
    row a2c-tag_continuous 2000 "${tag[@]}" --set num_steps=50
    wanted run || return 0
    try "cartpole to its score" bin/warp train cartpole --device cuda --out "$scratch/run"
    try "its evaluation" bin/warp eval "$scratch/run" --json
}

# The core of the map, as far as it comes; the next call goes on where it ended.
part_map() {
    try "the map's core" bin/warp bench --map "$report/map.json" --device cuda --seconds 2.5 --limit 400
}

part_libtorch() {
    local own=run_configs seed env tch=(--device cuda --backend burn)
    [ -x bin/warp-tch ] || { missing bin/warp-tch "in this bundle"; return; }
    try "A2C cartpole" bin/warp-tch bench $own/single_cartpole.yaml --train "${tch[@]}" \
        --replicas 10000 --set num_steps=100 --json
    try "A2C tag_continuous" bin/warp-tch bench $own/tag_continuous.yaml --train "${tch[@]}" \
        --replicas 500 --set num_steps=50 --set env.num_taggers=5 --set env.num_acceleration_levels=10 \
        --set env.num_turn_levels=10 --json
    for env in cartpole tag_gridworld tag_continuous; do
        for seed in 0 1 2; do
            try "$env, seed $seed" bin/warp-tch train "$env" "${tch[@]}" --seed "$seed" \
                --steps 500000 --out "$scratch/tch-$env-$seed"
            try "$env, seed $seed, processor" bin/warp train "$env" --device cpu --seed "$seed" \
                --steps 500000 --out "$scratch/cpu-$env-$seed"
        done
    done
}

# installed_wheel: puts the wheel of this bundle, and what came along for it, into $scratch/site, once.
installed_wheel() {
    local wheels=(python/*.whl)
    [ ! -d "$scratch/site/warp_rl" ] || return 0
    [ "${#wheels[@]}" -gt 0 ] || { missing "the wheel" "in this bundle"; return 1; }
    try "the wheel" python3 -m pip install --quiet --no-index --no-deps --target "$scratch/site" "${wheels[@]}"
}

part_package() {
    local name
    installed_wheel || return
    for name in cuda xla own_environment; do
        try "test_$name" env PYTHONPATH="$scratch/site" python3 -m pytest -q -rs -p no:cacheprovider \
            "python/tests/test_$name.py"
    done
}

# Each from its first cell to its last, in a folder of its own, with the wheel of this bundle.
part_notebooks() {
    local book name there needed
    installed_wheel || return
    there="$(nvidia-smi -L 2>/dev/null | grep -c ^GPU)"
    cat >"$scratch/notebook.py" <<'PYTHON'
import json, os, sys
said = json.load(open(sys.argv[1]))
os.makedirs(sys.argv[2])
os.chdir(sys.argv[2])
cells = ["".join(cell["source"]) for cell in said["cells"] if cell["cell_type"] == "code"]
exec(compile("\n\n".join(cells), sys.argv[1], "exec"), {"__name__": "__main__"})
PYTHON
    for book in python/*.ipynb; do
        name="$(basename "$book" .ipynb)"
        needed="$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["metadata"]["warp_rl"]["gpus"])' "$book")"
        if [ "$needed" -gt "$there" ]; then
            echo "notebooks $name needs $needed GPUs, and there are $there: left out"
            continue
        fi
        try "$name" env PYTHONPATH="$scratch/site" python3 "$scratch/notebook.py" "$book" "$scratch/$name"
    done
}

# profile NAME KERNELS SKIP COUNT COMMAND...: counters of COUNT launches after the first SKIP, of the
# kernels whose names match.
profile() {
    local name="$1" kernels="$2" skip="$3" count="$4"
    shift 4
    wanted "$name" || return 0
    LINES_KEPT=800 try "$name" "$ncu" --clock-control none --kernel-name "regex:$kernels" \
        --launch-skip "$skip" --launch-count "$count" --section SpeedOfLight \
        --section MemoryWorkloadAnalysis --section ComputeWorkloadAnalysis --section LaunchStats \
        --section Occupancy --section WarpStateStats --section SchedulerStats "$@"
}

part_profile() {
    ncu="$(tool ncu)" || { missing ncu "$tools"; return; }
    local env n bench=(bin/warp bench --device cuda --json) tag
    profile "steps of cartpole, 10,000" warp_cycle 2 1 "${bench[@]}" cartpole --envs 10000
    for env in cartpole acrobot mountain_car continuous_mountain_car pendulum catalysis; do
        profile "steps of $env" warp_cycle 2 1 "${bench[@]}" "$env" --envs 1000000
    done
    profile "steps of tag_gridworld" warp_cycle 2 1 "${bench[@]}" tag_gridworld --envs 10000
    tag=(tag_continuous --set env.num_taggers=5 --set env.num_runners=100)
    profile "steps of tag_continuous, 60" warp_cycle 2 1 "${bench[@]}" "${tag[@]}" --envs 60
    profile "steps of tag_continuous" warp_cycle 2 1 "${bench[@]}" "${tag[@]}" --envs 2000
    profile "steps of tag_continuous, all seen" warp_cycle 2 1 "${bench[@]}" "${tag[@]}" --envs 2000 \
        --set env.use_full_observation=true
    profile "steps of tag_continuous, a crowd" warp_cycle 2 1 "${bench[@]}" tag_continuous --envs 2000 \
        --set env.num_taggers=50 --set env.num_runners=950
    profile "steps of covid19" warp_cycle 2 1 "${bench[@]}" covid19 --envs 2000
    profile "resets of cartpole" warp_reset 2 1 "${bench[@]}" cartpole --envs 1000000
    profile "resets of tag_continuous" warp_reset 2 1 "${bench[@]}" "${tag[@]}" --envs 2000
    profile "training on cartpole, 4" small_few_replicas 1 1 "${bench[@]}" cartpole --train \
        --replicas 4 --set num_steps=128
    for n in 256 16384 65536; do
        profile "training on cartpole, $n" 'small_(collect|update)' 4 2 "${bench[@]}" cartpole \
            --train --replicas "$n" --set num_steps=128
    done
    for n in act learn; do
        profile "training on cartpole, 65536, fp32, $n" "wide_fused_$n" 4 1 "${bench[@]}" cartpole \
            --train --replicas 65536 --set num_steps=128 --set precision=fp32
    done
    for n in 2000 10000; do
        profile "training on tag_gridworld, $n" 'small_(collect|update)' 4 2 "${bench[@]}" \
            run_configs/tag_gridworld.yaml --train --replicas "$n" --set num_steps=100
    done
    tag=(run_configs/tag_continuous.yaml --train --replicas 500 --set num_steps=50
        --set env.num_taggers=5 --set env.num_acceleration_levels=10 --set env.num_turn_levels=10)
    # Kernels of two policies, one after the other.
    profile "acting on tag_continuous" 'wide_tensor_act|warp_step' 30 3 "${bench[@]}" "${tag[@]}"
    profile "learning on tag_continuous" 'wide_tensor_(learn|weights)|wide_reduce' 6 6 \
        "${bench[@]}" "${tag[@]}"
}

source ./ranks.sh || exit 1
find_libraries
machine="$(bin/warp info --json)" || { echo "bin/warp does not start on this machine" >&2; exit 1; }
envs="$(bin/warp envs | awk 'NR > 1 && /^[a-z]/ { print $1 }')"
total=0
for part in "${chosen[@]}"; do
    results="$scratch/results" failed=0 part_start="$SECONDS"
    : >"$results"
    write_report
    "part_$part"
    total=$((total + failed))
    printf '%-9s ended after %d s, %d failed: %s\n' \
        "$part" $((SECONDS - part_start)) "$failed" "$report/$part.json"
done
[ "$total" -eq 0 ]
