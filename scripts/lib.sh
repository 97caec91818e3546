# shellcheck shell=bash
# What every part uses: messages, clean-up at the end, bounded waits, where things stand, free ports.
#
# STATE is the folder of one stack: .dev for `up` and `demo`, .dev/test and .dev/bench for the others, so that they may
# run beside each other.

say() { printf '%s\n' "$@"; }

die() { # STATUS MESSAGE
    printf './dev: %s\n' "$2" >&2
    exit "$1"
}

# --- the end, whichever way it comes

CLEANUP=()
CHILD=

at_exit() { CLEANUP+=("$1"); }

finish() {
    local status=$? i
    trap '' INT TERM HUP PIPE
    stop_child
    for ((i = ${#CLEANUP[@]} - 1; i >= 0; i--)); do
        "${CLEANUP[i]}" || status=$((status == 0 ? 1 : status))
    done
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
trap 'exit 141' PIPE

# Runs a command in a process group of its own and waits: else bash would put off a signal until the command ends, and
# what the command has started would be left behind.
run() {
    local status=0
    set -m
    "$@" </dev/null 9>&- &
    CHILD=$!
    set +m
    wait "$CHILD" || status=$?
    CHILD=
    return "$status"
}

stop_child() {
    [[ -n $CHILD ]] || return 0
    kill -TERM -- "-$CHILD" 2>/dev/null || return 0
    wait_until 10 group_is_gone "$CHILD" || kill -KILL -- "-$CHILD" 2>/dev/null || true
}

group_is_gone() { ! kill -0 -- "-$1" 2>/dev/null; }

# --- waits

now_ms() {
    local micros=${EPOCHREALTIME/[.,]/}
    printf '%s' "${micros%???}"
}

wait_until() { # SECONDS COMMAND...
    local end=$(($(now_ms) + $1 * 1000))
    shift
    until "$@"; do
        (($(now_ms) < end)) || return 1
        sleep 0.1
    done
}

# The status of GET on a port of this machine, or nothing within five seconds. HEADER may carry one header; it goes by
# the environment, because arguments are for everyone to read.
http_status() { # PORT PATH
    # shellcheck disable=SC2016 # the inner bash expands these
    HEADER=${HEADER:+$HEADER$'\r\n'} timeout 5 bash -c '
        exec 3<>"/dev/tcp/127.0.0.1/$0" || exit
        printf "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sConnection: close\r\n\r\n" "$1" "$HEADER" >&3
        read -r _ status _ <&3 && printf "%s" "$status"' "$1" "$2" 2>/dev/null 9>&- || true
}

answers_200() { [[ $(http_status "$1" "$2") == 200 ]]; } # PORT PATH

# --- the folder of a stack

use_state() { # FOLDER
    STATE=$1
    mkdir -p "$STATE/log" "$STATE/pids" 2>/dev/null || true
    [[ -w $STATE && -w $STATE/log && -w $STATE/pids ]] ||
        die 2 "$STATE can't be written. It seems to belong to another user: run ./dev as that user, or as root."
    exec 9>>"$STATE/lock"
}

# One at a time changes a stack. File 9 is the lock; it is closed for everything that is started and stays.
lock() { # SECONDS MESSAGE
    flock -w "$1" 9 || die 1 "$2"
}
unlock() { flock -u 9; }

# --- ports and passwords: chosen once and kept, so that after a crash everything comes back at the same address

PORTS=(POSTGRES AMQP MANAGEMENT DISTRIBUTION EPMD SIMULATOR API_1 API_1_ADMIN API_2 API_2_ADMIN WORKER_1 WORKER_2
    RECONCILER_1)

ports_in_use() { # listening: only those that listen; prints them in hex, a line each
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk -v only="${1-}" '$1 ~ /:$/ && (only == "" || $4 == "0A") { n = split($2, part, ":"); print part[n] }'
}

random_hex() { head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

# Chooses the ports that are not chosen yet, and with `again` those that somebody else has taken meanwhile. They lie
# below the range of outgoing connections, which could take a port while its server is down.
choose_ports() { # [again]
    local taken listening name port hex
    taken=$(ports_in_use)
    listening=$(ports_in_use listening)
    for name in "${PORTS[@]}"; do
        local -n chosen="PORT_$name"
        printf -v hex '%04X' "${chosen:-0}"
        if [[ -n ${chosen-} && (${1-} != again || $'\n'$listening$'\n' != *$'\n'$hex$'\n'*) ]]; then
            continue
        fi
        while :; do
            port=$((12000 + (RANDOM * 32768 + RANDOM) % 20000))
            printf -v hex '%04X' "$port"
            [[ $'\n'$taken$'\n' == *$'\n'$hex$'\n'* ]] || break
        done
        taken+=$'\n'$hex
        chosen=$port
    done
}

load_settings() { # [again]
    local name
    # shellcheck source=/dev/null
    [[ ! -s $STATE/settings ]] || . "$STATE/settings"
    : "${POSTGRES_PASSWORD:=$(random_hex 16)}" "${RABBITMQ_PASSWORD:=$(random_hex 16)}"
    choose_ports "${1-}"
    write_private "$STATE/settings" < <(
        for name in "${PORTS[@]/#/PORT_}" POSTGRES_PASSWORD RABBITMQ_PASSWORD; do
            printf '%s=%s\n' "$name" "${!name}"
        done
    )
}

# Whole or not at all, and for the owner's eyes only.
write_private() { # FILE, content from stdin
    (umask 077 && cat >"$1.new") && mv "$1.new" "$1"
}
