# shellcheck shell=bash
# Processes that stay: started so that they outlive this script, found again, stopped, and none forgotten.
#
# Each carries the folder of its stack and its name in its environment, and so does all that it starts. A process id in
# a file says little after a crash (it may be somebody else's by now); the environment tells whose a process is, so
# nothing is ever signalled by its id alone.

# Starts a program in a session of its own and as a child of init (so that a killed one is gone, not a zombie of ours),
# its output in a log, its id in pids/NAME.
detach() { # NAME COMMAND...
    local name=$1 file=$STATE/pids/$1
    shift
    sweep "$name" || die 1 "an earlier $name can't be stopped; run ./dev down as the user that started it."
    rm -f "$file"
    # Whatever else the caller has open (the lock, a pipe that somebody reads to its end) must not stay open with it.
    # shellcheck disable=SC2016 # the inner bash expands these
    (ONEJOB_DEV_STATE=$STATE ONEJOB_DEV_NAME=$name setsid bash -c '
        for fd in /proc/self/fd/*; do ((${fd##*/} < 3)) || eval "exec ${fd##*/}>&-"; done
        echo $$ >"$0.new" && mv "$0.new" "$0" && exec "$@"' "$file" "$@" \
        </dev/null >>"$STATE/log/$name.log" 2>&1 &)
    wait_until 10 test -s "$file" || die 1 "$name could not be started; $STATE/log/$name.log may say why."
}

has_in_environment() { # PID LINE...
    local pid=$1 line
    shift
    for line; do
        grep -qzxF -- "$line" "/proc/$pid/environ" 2>/dev/null || return 1
    done
}

pid_of() { # NAME
    local pid
    { read -r pid <"$STATE/pids/$1"; } 2>/dev/null && [[ $pid =~ ^[0-9]+$ ]] && printf '%s' "$pid"
}

# A zombie has no environment, so it does not count.
running() { # NAME
    local pid
    pid=$(pid_of "$1") && has_in_environment "$pid" "ONEJOB_DEV_STATE=$STATE" "ONEJOB_DEV_NAME=$1"
}
gone() { ! running "$1"; }

# Every process of this stack, or of one service of it, with all that they have started.
ours() { # [NAME]
    local pid
    grep -lzxF -- "ONEJOB_DEV_STATE=$STATE" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        [[ $pid != "$$" && $pid != "$BASHPID" && $pid != "$PPID" ]] || continue
        [[ $# == 0 ]] || has_in_environment "$pid" "ONEJOB_DEV_NAME=$1" || continue
        printf '%s\n' "$pid"
    done
}
none_of_ours() { [[ -z $(ours) ]]; }

# Asks to stop; a frozen process hears nothing, so it is woken.
ask_to_stop() { # NAME SIGNAL
    local pid
    running "$1" || return 0
    pid=$(pid_of "$1")
    kill -s "$2" "$pid" 2>/dev/null || true
    kill -s CONT "$pid" 2>/dev/null || true
}

stopped_within() { # SECONDS NAME
    if ! wait_until "$1" gone "$2"; then
        say "  $2 did not stop within $1 s and is killed"
        kill -KILL "$(pid_of "$2")" 2>/dev/null || true
        wait_until 5 gone "$2" || return 1
    fi
    rm -f "$STATE/pids/$2"
}

# A command in the foreground that counts as this stack's own: what it leaves behind, or this script when it is killed,
# is found and stopped like the rest.
run_as_ours() { run env ONEJOB_DEV_STATE="$STATE" ONEJOB_DEV_NAME=foreground "$@"; }

# Kills what is left of this stack, or of one service of it.
sweep() { # [NAME]
    local round left=()
    for ((round = 0; round < 50; round++)); do
        mapfile -t left < <(ours "$@")
        ((${#left[@]})) || return 0
        kill -KILL "${left[@]}" 2>/dev/null || true
        sleep 0.1
    done
    say "  still running, and not to be stopped by this user: ${left[*]}" >&2
    return 1
}

# Waits until a service answers; says what its log says when it ends instead, or takes too long.
await() { # NAME SECONDS COMMAND...
    local name=$1 end=$(($(now_ms) + $2 * 1000)) seconds=$2 why=
    shift 2
    until "$@"; do
        if ! running "$name"; then
            why="$name ended instead of starting"
        elif (($(now_ms) >= end)); then
            why="$name is not ready after $seconds s"
        else
            sleep 0.2
            continue
        fi
        printf '\n--- the end of %s\n' "$STATE/log/$name.log" >&2
        [[ -s $STATE/log/$name.log ]] || printf '(it is empty)\n' >&2
        tail -n 20 "$STATE/log/$name.log" >&2 || true
        die 1 "$why; its last lines are above. When that is put right, run the command again; ./dev down starts afresh."
    done
}
