# shellcheck shell=bash
# The stack in the background: up, down, and what is played on it (demo, bench).

# --- which database and broker

# Private ones, unless the caller names others. The address of a private one, in a shell that has read .dev/env, names
# none: else the tests would run on the data of the stack.
choose_services() {
    PRIVATE_POSTGRES=0 PRIVATE_RABBITMQ=0
    if [[ -z ${DATABASE_URL-} ]] || is_private "$DATABASE_URL"; then
        PRIVATE_POSTGRES=1 DATABASE_URL=$(OWN_DATABASE_URL)
    fi
    if [[ -z ${AMQP_URL-} ]] || is_private "$AMQP_URL"; then
        PRIVATE_RABBITMQ=1 AMQP_URL=$(OWN_AMQP_URL) AMQP_MANAGEMENT_URL=$(OWN_MANAGEMENT_URL)
    elif [[ -z ${AMQP_MANAGEMENT_URL-} ]]; then
        # RabbitMQ's own port for it, on the same host with the same user.
        local rest=${AMQP_URL#*://}
        rest=${rest%%/*}
        [[ $rest == *@* ]] || rest=guest:guest@$rest
        AMQP_MANAGEMENT_URL=http://${rest%@*}@$(sed -E 's/:[0-9]+$//' <<<"${rest##*@}"):15672
    fi
    export DATABASE_URL AMQP_URL AMQP_MANAGEMENT_URL
}

is_private() { # URL
    local password
    password=$(sed -nE 's|^[a-z]+://onejob:([0-9a-f]{32})@127\.0\.0\.1:.*|\1|p' <<<"$1")
    [[ -n $password ]] && grep -qsx "[A-Z]*_PASSWORD=$password" "$ROOT"/.dev{,/test,/bench}/settings
}

# The services a stack runs on are those it was started with, also for a later `up` without the variables.
keep_services() {
    local name before
    none_of_ours && rm -f "$STATE/env"
    [[ -s $STATE/env ]] || return 0
    for name in DATABASE_URL AMQP_URL AMQP_MANAGEMENT_URL; do
        before=$(sed -n "s/^$name=//p" "$STATE/env")
        [[ -z ${!name-} || ${!name} == "$before" ]] || is_private "${!name}" ||
            die 1 "a stack is up with another $name than the one set now. Run ./dev down first, or unset it."
        printf -v "$name" '%s' "$before"
    done
}

services_start() {
    if ((PRIVATE_POSTGRES)); then postgres_start; fi
    if ((PRIVATE_RABBITMQ)); then rabbitmq_start; fi
}

services_await() {
    if ((PRIVATE_POSTGRES)); then await postgres 60 postgres_accepts; fi
    if ((PRIVATE_RABBITMQ)); then await rabbitmq 120 rabbitmq_answers; fi
}

# Also what a crash left, whatever the files say. The logs and the choice of ports stay.
services_stop() {
    local status=0
    rabbitmq_stop || status=1
    postgres_stop || status=1
    sweep || status=1
    rabbitmq_remove && postgres_remove
    return $status
}

# --- OneJob's own processes

build() { # [--release]
    BIN=$TARGET/debug
    [[ ${1-} != --release ]] || BIN=$TARGET/release
    say "Building the binaries (the first time takes minutes)"
    run cargo build --quiet --bins "$@" || die 1 "the build failed; the compiler's messages are above."
}

admin_port() { # NAME
    case $1 in
        api-1) printf %s "$PORT_API_1_ADMIN" ;;
        api-2) printf %s "$PORT_API_2_ADMIN" ;;
        worker-1) printf %s "$PORT_WORKER_1" ;;
        worker-2) printf %s "$PORT_WORKER_2" ;;
        reconciler-1) printf %s "$PORT_RECONCILER_1" ;;
    esac
}

ONEJOB_PROCESSES=(api-1 api-2 worker-1 worker-2 reconciler-1)

onejob_start() { # NAME
    running "$1" && return
    say "Starting $1"
    local admin=127.0.0.1:
    admin+=$(admin_port "$1")
    case $1 in
        simulator) detach simulator "$BIN/onejob-simulator" --listen "127.0.0.1:$PORT_SIMULATOR" ;;
        api-1) detach api-1 "$BIN/onejob-api" --listen "127.0.0.1:$PORT_API_1" --admin-listen "$admin" ;;
        api-2) detach api-2 "$BIN/onejob-api" --listen "127.0.0.1:$PORT_API_2" --admin-listen "$admin" ;;
        worker-*) detach "$1" "$BIN/onejob-worker" --role attempts --admin-listen "$admin" ;;
        reconciler-*) detach "$1" "$BIN/onejob-worker" --role reconciler --admin-listen "$admin" ;;
    esac
}

onejob_stop() {
    local name status=0
    for name in "${ONEJOB_PROCESSES[@]}" simulator; do ask_to_stop "$name" TERM; done
    for name in "${ONEJOB_PROCESSES[@]}" simulator; do stopped_within 15 "$name" || status=1; done
    return $status
}

# Kept from one `up` to the next, and made anew where the database does not know them any more.
ensure_keys() {
    local ONEJOB_API_KEY='' ONEJOB_OTHER_API_KEY='' ONEJOB_OPERATOR_KEY=''
    # shellcheck source=/dev/null
    [[ ! -s $STATE/keys ]] || . "$STATE/keys"
    key_works "$ONEJOB_API_KEY" /v1/jobs || ONEJOB_API_KEY=$(create_key demo-team producer)
    key_works "$ONEJOB_OTHER_API_KEY" /v1/jobs || ONEJOB_OTHER_API_KEY=$(create_key other-team producer)
    key_works "$ONEJOB_OPERATOR_KEY" /v1/unknowns || ONEJOB_OPERATOR_KEY=$(create_key dev-operator operator)
    write_private "$STATE/keys" <<<"ONEJOB_API_KEY=$ONEJOB_API_KEY
ONEJOB_OTHER_API_KEY=$ONEJOB_OTHER_API_KEY
ONEJOB_OPERATOR_KEY=$ONEJOB_OPERATOR_KEY"
}

key_works() { # KEY PATH
    [[ -n $1 ]] && HEADER="Authorization: Bearer $1" answers_200 "$PORT_API_1" "$2"
}

create_key() { # OWNER ROLE
    timeout 60 "$BIN/onejob" keys create --owner "$1" --role "$2" --name dev --quiet ||
        die 1 "onejob keys create failed for $1; its message is above."
}

certify() {
    grep -q '^\[providers\.backup\]' "$ONEJOB_CONFIG" || return 0
    say "Certifying backup for ticket-triage@1, unless it is"
    run timeout 120 env "${CERTIFY_ENV[@]}" "$BIN/onejob" certify --if-needed --contract ticket-triage@1 \
        --provider backup >>"$STATE/log/certify.log" 2>&1 || {
        tail -n 20 "$STATE/log/certify.log" >&2
        die 1 "backup could not be certified for ticket-triage@1; the last lines of $STATE/log/certify.log are above."
    }
}

env_lines() {
    local name admins=
    for name in "${ONEJOB_PROCESSES[@]}"; do admins+=,http://127.0.0.1:$(admin_port "$name"); done
    printf '%s\n' "ONEJOB_URL=http://127.0.0.1:$PORT_API_1" "ONEJOB_URL_2=http://127.0.0.1:$PORT_API_2" \
        "ONEJOB_ADMIN_URLS=${admins#,}" "ONEJOB_SIMULATOR_URL=$ONEJOB_SIMULATOR_URL" \
        "DATABASE_URL=$DATABASE_URL" "AMQP_URL=$AMQP_URL" "AMQP_MANAGEMENT_URL=$AMQP_MANAGEMENT_URL"
    cat "$STATE/keys"
}

# --- commands

stack() { # up|down
    use_state "$ROOT/.dev"
    lock 600 "another ./dev up, down or demo is at work for ten minutes. See what it waits for."
    "stack_$1" "${@:2}"
    unlock
}

# Starts what is not running; the caller holds the lock.
stack_up() { # [--release]
    local name
    keep_services
    load_settings "$(none_of_ours && echo again)"
    choose_services
    find_cargo
    ensure_programs
    # An empty stack begins with empty logs: those of the last run were kept until now.
    if none_of_ours; then
        find "$STATE/log" -type f ! -name apt.log -delete
    fi
    services_start # both need seconds, the build too
    build "$@"
    services_await
    export ONEJOB_SIMULATOR_URL=http://127.0.0.1:$PORT_SIMULATOR
    timeout 60 "$BIN/onejob" migrate || die 1 "onejob migrate failed; its message is above."
    for name in simulator "${ONEJOB_PROCESSES[@]}"; do onejob_start "$name"; done
    await simulator 30 answers_200 "$PORT_SIMULATOR" '/_sim/calls?model=none'
    for name in "${ONEJOB_PROCESSES[@]}"; do await "$name" 60 answers_200 "$(admin_port "$name")" /readyz; done
    local ready
    ready=$(now_ms)
    ensure_keys
    mapfile -t CERTIFY_ENV < <(env_lines)
    certify
    # RabbitMQ 3.10 writes the registration of a new quorum queue up to 3 s after it has declared it. Killed before that,
    # it comes back with a queue that never finds a leader: an accident of this machine's making only, so wait it out.
    if [[ $PRIVATE_RABBITMQ == 1 && ! -e $STATE/rabbitmq/settled ]]; then
        wait_until 4 is_past $((ready + 3500)) || true
        touch "$STATE/rabbitmq/settled"
    fi
    env_lines | write_private "$STATE/env"
    say "Up: http://127.0.0.1:$PORT_API_1 (addresses and keys: ${STATE#"$ROOT/"}/env, logs: ${STATE#"$ROOT/"}/log)"
}
is_past() { (($(now_ms) >= $1)); }

stack_down() {
    # shellcheck source=/dev/null
    [[ ! -s $STATE/settings ]] || . "$STATE/settings"
    none_of_ours || say "Stopping the stack"
    local status=0
    # The keys go with the database that knows them; a named one is not ours to empty.
    [[ ! -d $STATE/postgres && ! -L $STATE/postgres-dir ]] || rm -f "$STATE/keys"
    onejob_stop || status=1
    services_stop || status=1
    rm -f "$STATE/env" "$STATE"/pids/*
    ((status == 0)) || die 1 "not everything could be stopped; see above. Run ./dev down as the user that ran ./dev up."
}

is_up() {
    local name
    [[ -s $ROOT/.dev/env ]] || return 1
    for name in simulator "${ONEJOB_PROCESSES[@]}"; do running "$name" || return 1; done
}

demo() { # [--once]
    local once=0 status=0 variables
    case "$*" in
        '') ;;
        --once) once=1 ;;
        *) die 2 "./dev demo takes --once and nothing else, but got: $*" ;;
    esac
    use_state "$ROOT/.dev"
    local was_up=0
    is_up && was_up=1
    ((was_up)) || at_exit stack_end
    stack up
    mapfile -t variables <"$STATE/env"
    run_as_ours env "${variables[@]}" "$BIN/onejob" demo || status=$?
    if ((once)) || ((status)); then
        ((status == 0)) || say "The story did not hold (exit status $status). The logs are in .dev/log."
        exit "$status"
    fi
    say "" "API       ${variables[0]#*=}" "Keys      .dev/keys" "Addresses .dev/env   (set -a; . .dev/env; set +a)" \
        "Logs      .dev/log"
    ((!was_up)) || exit 0
    say "It stays up until Ctrl-C."
    run_as_ours sleep infinity
}
stack_end() { stack down; }

bench() { # ARGS for onejob bench
    local variables
    use_state "$ROOT/.dev/bench"
    lock 0 "another ./dev bench is at work; two would measure each other."
    stack_down
    at_exit stack_down
    stack_up --release
    mapfile -t variables <"$STATE/env"
    run_as_ours env "${variables[@]}" "$BIN/onejob" bench "$@"
}
