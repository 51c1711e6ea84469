# The parts of run.sh that need several GPUs: `scaling` and `ranks`. Read by run.sh, whose functions they call.
# shellcheck shell=bash disable=SC2034,SC2154,SC2317

n_gpus="$(nvidia-smi -L 2>/dev/null | grep -c ^GPU)"

# several PART: whether there are enough GPUs; where there are not, the part is left out and says so.
several() {
    [ "$n_gpus" -ge 2 ] || { echo "$1 needs two GPUs, and there are $n_gpus: left out"; return 1; }
}

# counts: 2, 4, 8 .. and all of them, or those asked for.
counts() {
    local g
    [ -z "${GPUS:-}" ] || { echo "$GPUS"; return; }
    for ((g = 2; g < n_gpus; g *= 2)); do echo "$g"; done
    echo "$n_gpus"
}

# scaled NAME GPUS ARGUMENT...: training on so many GPUs beside training on one, five alternating pairs.
scaled() {
    local name="$1" g="$2"
    shift 2
    wanted "$name" || return 0
    KEEP="scaling/$name-$g.json" try "$name, $g GPUs" bin/warp bench "$@" --train --device cuda \
        --gpus "$g" --seconds "${SCALING_SECONDS:-3}" --json
}

# fleets GPUS RUNS: seconds of a fleet's training on one GPU and on all of them, three pairs in turn, and whether
# their records are the same.
fleets() {
    local g="$1" runs="$2"
    wanted fleet || return 0
    # shellcheck disable=SC2016
    KEEP="scaling/fleet-$g.json" try "fleet of $runs runs, $g GPUs" bash -c 'g="$1" runs="$2" scratch="$3"
        seconds() { python3 -c "import json, sys; print(json.load(open(sys.argv[1]))[\"seconds\"])" "$1/summary.json"; }
        one() {
            rm -rf "$scratch/fleet-$1"
            bin/warp train cartpole --device auto --gpus "$1" --seeds "0..$2" --set num_envs=4 --set num_steps=128 \
                --steps 500000 --set num_minibatches=4 --set update_epochs=4 --out "$scratch/fleet-$1" >&2 || exit 1
        }
        # Compiles; with fewer runs per GPU than a launch takes, it would be other kernels.
        one "$g" $((runs / 4))
        pairs=""
        for pair in 1 2 3; do
            one 1 "$runs"; one "$g" "$runs"
            cmp "$scratch/fleet-1/metrics.jsonl" "$scratch/fleet-$g/metrics.jsonl" >&2 || exit 1
            pairs="$pairs${pairs:+, }[$(seconds "$scratch/fleet-1"), $(seconds "$scratch/fleet-$g")]"
        done
        printf "{\"runs\": %d, \"gpus\": %d, \"seconds_one_and_all\": [%s]}\n" "$runs" "$g" "$pairs"
        ' fleets "$g" "$runs" "$scratch"
}

# jax: the peer over one GPU and over several, with as many replicas per GPU.
jax() {
    wanted jax || return 0
    # shellcheck disable=SC2046
    KEEP=scaling/jax.json try "JAX, $*" python3 with_jax.py --gpus 1 $(counts) --seconds 1
}

# Weak and strong scaling, with 2, 4, 8 .. and all GPUs; what a sum over GPUs takes follows from both rates, and is
# in every row.
part_scaling() {
    local g n own=run_configs
    local ppo=(cartpole --set num_steps=128 --set num_minibatches=4 --set update_epochs=4 --set 'hidden=[64,64]')
    local a2c=(cartpole --set algorithm=a2c --set 'hidden=[32,32]' --set activation=relu
        --set shared_trunk=true --set num_steps=100)
    several scaling || return
    for g in $(counts); do
        for n in 256 2048 16384 65536; do scaled "ppo-cartpole-$n" "$g" "${ppo[@]}" --replicas "$n"; done
        scaled ppo-cartpole-strong-65536 "$g" "${ppo[@]}" --replicas 65536 --strong
        for n in 16384 65536; do
            WARP_LINK=nccl scaled "ppo-cartpole-nccl-$n" "$g" "${ppo[@]}" --replicas "$n"
        done
        scaled a2c-cartpole-10000 "$g" "${a2c[@]}" --replicas 10000
        scaled a2c-tag_continuous-2000 "$g" tag_continuous --set algorithm=a2c --replicas 2000
        WARP_LINK=nccl scaled a2c-tag_continuous-nccl-2000 "$g" tag_continuous --set algorithm=a2c --replicas 2000
        scaled ppo-tag_continuous-2000 "$g" tag_continuous --replicas 2000
    done
    # As many runs as keep all GPUs at work for several rounds.
    fleets "$n_gpus" $((2048 * n_gpus))
    python3 -c "import jax" 2>/dev/null || { echo "the peer needs JAX: left out"; return; }
    jax
}

# free_port: one that nobody listens at.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# as_processes LOG COMMAND...: the command as one process per GPU, with the variables that launchers give. Writes
# LOG.RANK and leaves the processes' numbers in `processes`.
as_processes() {
    local log="$1" rank master
    shift
    master="127.0.0.1:$(free_port)"
    processes=()
    for ((rank = 0; rank < n_gpus; ++rank)); do
        WARP_RANK="$rank" WARP_WORLD="$n_gpus" WARP_LOCAL_RANK="$rank" WARP_MASTER="$master" \
            "$@" >"$log.$rank" 2>&1 </dev/null &
        processes+=($!)
    done
}

# ended LOG CODE: waits for all processes but those that were killed; whether each ended with this code.
ended() {
    local log="$1" wanted_code="$2" rank code wrong=0
    for rank in "${!processes[@]}"; do
        code=0
        wait "${processes[$rank]}" || code=$?
        [ "$code" -eq "$wanted_code" ] || [ "$code" -eq 137 ] || {
            wrong=1
            echo "rank $rank ended with $code:" && tail -n 5 "$log.$rank"
        }
    done
    return "$wrong"
}

# run_in_processes OUT ARGUMENT...: a whole run.
run_in_processes() {
    local out="$1"
    shift
    as_processes "$scratch/log" bin/warp train "$@" --out "$out"
    ended "$scratch/log" 0
}

# same_weights RUN RUN: whether the newest checkpoints have the same weights, optimiser's state and step.
same_weights() {
    local a b file
    a="$(find "$1/checkpoints" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1)"
    b="$(find "$2/checkpoints" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1)"
    [ -n "$a" ] && [ "$(basename "$a")" = "$(basename "$b")" ] || { echo "$a and $b differ"; return 1; }
    for file in weights optimizer; do
        cmp "$a/$file.safetensors" "$b/$file.safetensors" || return 1
    done
    echo "$(basename "$a"): $(sha256sum <"$a/weights.safetensors")"
}

# threads_and_processes NAME ARGUMENT...: a run in threads twice and one in processes; all have the same weights.
threads_and_processes() {
    local name="$1"
    shift
    rm -rf "$scratch/$name"-*
    bin/warp train "$@" --gpus "$n_gpus" --out "$scratch/$name-threads" || return
    bin/warp train "$@" --gpus "$n_gpus" --out "$scratch/$name-again" || return
    run_in_processes "$scratch/$name-processes" "$@" || return
    same_weights "$scratch/$name-threads" "$scratch/$name-again" &&
        same_weights "$scratch/$name-threads" "$scratch/$name-processes"
}

# both_links ARGUMENT...: a run through memory that all GPUs reach and one through NCCL; the same weights.
both_links() {
    rm -rf "$scratch"/link-*
    WARP_LINK=peers bin/warp train "$@" --gpus "$n_gpus" --out "$scratch/link-peers" || return
    WARP_LINK=nccl bin/warp train "$@" --gpus "$n_gpus" --out "$scratch/link-nccl" || return
    same_weights "$scratch/link-peers" "$scratch/link-nccl"
}

# pretended_node ARGUMENT...: processes that must not reach each other's memory, as if each were on a machine of its
# own; the weights are those of threads.
pretended_node() {
    rm -rf "$scratch"/node-*
    WARP_LINK=nccl bin/warp train "$@" --gpus "$n_gpus" --out "$scratch/node-threads" || return
    NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 WARP_LINK=nccl run_in_processes "$scratch/node-apart" "$@" || return
    same_weights "$scratch/node-threads" "$scratch/node-apart"
}

# one_is_killed LINK ARGUMENT...: the last of the ranks is killed while they learn; all others end with code 75.
one_is_killed() {
    local link="$1" since
    shift
    WARP_LINK="$link" as_processes "$scratch/killed" bin/warp train "$@" --out "$scratch/killed-$link"
    # Learning has begun where there is a line of metrics.
    for ((turn = 0; turn < 600; ++turn)); do
        [ ! -s "$scratch/killed-$link/metrics.jsonl" ] || break
        sleep 0.1
    done
    since="$(date +%s%N)"
    kill -KILL "${processes[-1]}"
    ended "$scratch/killed" 75 || return
    echo "the others ended after $((($(date +%s%N) - since) / 1000000)) ms"
    tail -n 2 "$scratch/killed.0"
}

# restarted LINK ARGUMENT...: what trains for the last rank is killed on the way; the run goes on by itself, and has the
# weights of one that nobody disturbed.
restarted() {
    local link="$1" run="$scratch/restarted-$1" last
    shift
    rm -rf "$run" "$run-whole"
    WARP_LINK="$link" bin/warp train "$@" --gpus "$n_gpus" --out "$run-whole" || return
    WARP_LINK="$link" as_processes "$scratch/restart" bin/warp train "$@" --restarts 1 --out "$run"
    for ((turn = 0; turn < 600; ++turn)); do
        [ ! -d "$run/checkpoints" ] || [ "$(progress "$run")" -eq 0 ] || break
        sleep 0.1
    done
    last="${processes[-1]}"
    kill -KILL "$(cut -d " " -f 1 "/proc/$last/task/$last/children")"
    ended "$scratch/restart" 0 || return
    grep -h "restart 1 of 1" "$scratch"/restart.* && same_weights "$run-whole" "$run"
}

# goes_on ARGUMENT...: the run of all GPUs goes on with these, from where it is.
goes_on() {
    local run="$scratch/all"
    bin/warp train --resume "$run" --steps $(($(progress "$run") + 65536)) "$@" || return
    echo "went on to step $(progress "$run")"
}

# progress RUN: the step of its newest checkpoint.
progress() {
    local newest
    newest="$(basename "$(find "$1/checkpoints" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1)")"
    echo $((10#$newest))
}

# reaches SCORE SEED ARGUMENT...: a run on all GPUs whose greedy episodes reach a return.
reaches() {
    local score="$1" seed="$2" run="$scratch/seed-$2"
    shift 2
    rm -rf "$run"
    bin/warp train "$@" --seed "$seed" --gpus "$n_gpus" --out "$run" >/dev/null || return
    bin/warp eval "$run" --json >"$run.json" || return
    python3 -c 'import json, sys
said = json.load(open(sys.argv[1]))
print(said["mean_episode_return"])
sys.exit(said["mean_episode_return"] < float(sys.argv[2]))' "$run.json" "$score"
}

# checked_memory SANITIZER ARGUMENT...: a short run in processes, each under memcheck.
checked_memory() {
    local sanitizer="$1"
    shift
    rm -rf "$scratch/checked"
    as_processes "$scratch/memcheck" "$sanitizer" --tool memcheck --error-exitcode 9 \
        bin/warp train "$@" --link-timeout 120 --out "$scratch/checked"
    ended "$scratch/memcheck" 0 && tail -n 1 "$scratch/memcheck.0"
}

# shown NAME FUNCTION ARGUMENT...: a function of this file as an entry of the report.
shown() {
    local name="$1" function="$2"
    shift 2
    wanted "$name" || return 0
    # shellcheck disable=SC2016
    try "$name" env scratch="$scratch" bash -c 'set -u
        source ./ranks.sh
        trap "kill \$(jobs -p) 2>/dev/null" EXIT
        "$@"' ranks "$function" "$@"
}

part_ranks() {
    local env seed half small wide replay long sanitizer
    several ranks || return
    # Of a constant learning rate, so that a run can be extended.
    small=(cartpole --set "num_envs=$((512 * n_gpus))" --set num_steps=32 --set learning_rate=1e-3)
    wide=(tag_continuous --set "num_envs=$((64 * n_gpus))" --set num_steps=20 --set num_minibatches=2)
    replay=(pendulum --set algorithm=sac --set "num_envs=$((2 * n_gpus))" --set num_steps=50 --set "batch_size=$((128 * n_gpus))")
    # Several at once, since most of their time goes into compiling.
    ! wanted tests || gpu_tests '*cuda_ranks' 3
    shown "threads are processes, small" threads_and_processes small "${small[@]}" --steps 500000
    shown "threads are processes, wide" threads_and_processes wide "${wide[@]}" --steps 100000
    shown "threads are processes, replay" threads_and_processes replay "${replay[@]}" --steps 20000
    WARP_LINK=nccl shown "threads are processes, NCCL" threads_and_processes nccl "${wide[@]}" --steps 100000
    shown "both links, wide" both_links "${wide[@]}" --steps 100000
    shown "both links, replay" both_links "${replay[@]}" --steps 20000
    shown "a node each, pretended" pretended_node "${wide[@]}" --steps 50000
    shown "a killed rank, peers" one_is_killed peers "${small[@]}" --steps 20000000000
    shown "a killed rank, NCCL" one_is_killed nccl "${wide[@]}" --steps 20000000000
    shown "restarted, peers" restarted peers "${small[@]}" --steps 4000000000 --set checkpoint_steps=200000000
    shown "restarted, NCCL" restarted nccl "${wide[@]}" --steps 40000000 --set checkpoint_steps=2000000
    for env in cartpole pendulum tag_gridworld tag_continuous; do
        shown "gradients, $env" bin/warp gradcheck "$env" --device cuda --ranks "$n_gpus"
        WARP_LINK=nccl shown "gradients, $env, NCCL" bin/warp gradcheck "$env" --device cuda --ranks "$n_gpus"
    done
    # Digests of all ranks' weights are compared at each of twenty checkpoints.
    long=$((10000 * 64 * n_gpus * 16))
    shown "10,000 iterations" train_on_all cartpole --set "num_envs=$((64 * n_gpus))" --set num_steps=16 \
        --set "checkpoint_steps=$((long / 20))" --steps "$long"
    # From two, four .. shards to one GPU's, and to the processor's threads.
    shown "a run to go on with" train_on_all "${small[@]}" --steps 65536
    shown "goes on with all" goes_on --gpus "$n_gpus"
    for ((half = n_gpus / 2; half > 1; half /= 2)); do shown "goes on with $half" goes_on --gpus "$half"; done
    shown "goes on with one" goes_on --gpus 1
    shown "goes on with none" goes_on --device cpu
    for seed in 0 1 2 3 4; do
        shown "cartpole to 475, seed $seed" reaches 475 "$seed" cartpole
    done
    sanitizer="$(tool compute-sanitizer)" || { missing compute-sanitizer "$tools"; return; }
    shown "memcheck, small" checked_memory "$sanitizer" "${small[@]}" --steps $((2 * 512 * n_gpus * 32))
    shown "memcheck, wide" checked_memory "$sanitizer" "${wide[@]}" --steps $((2 * 64 * n_gpus * 20))
}

# train_on_all ARGUMENT...: a run on all GPUs.
train_on_all() {
    rm -rf "$scratch/all"
    bin/warp train "$@" --gpus "$n_gpus" --out "$scratch/all" | tail -n 5
    return "${PIPESTATUS[0]}"
}
