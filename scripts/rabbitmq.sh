# shellcheck shell=bash
# A private RabbitMQ: everything of it under $STATE/rabbitmq, its ports on the loopback, a port mapper of its own.

RABBITMQ_USER=onejob
OWN_AMQP_URL() { printf 'amqp://%s:%s@127.0.0.1:%s/%%2f' $RABBITMQ_USER "$RABBITMQ_PASSWORD" "$PORT_AMQP"; }
OWN_MANAGEMENT_URL() { printf 'http://%s:%s@127.0.0.1:%s' $RABBITMQ_USER "$RABBITMQ_PASSWORD" "$PORT_MANAGEMENT"; }

rabbitmq_configure() {
    local folder=$STATE/rabbitmq
    mkdir -p "$folder/home" "$folder/mnesia" "$folder/schema"
    printf '[rabbitmq_management].\n' >"$folder/enabled_plugins"
    : >"$folder/rabbitmq-env.conf" # or the system's would be read
    # The figures of the management API are as fresh as a person watching, or a test, wants them: 5 s by default.
    printf '[{rabbit, [{quorum_tick_interval, 1000}]}].\n' >"$folder/advanced.config"
    write_private "$folder/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$PORT_AMQP
management.tcp.ip = 127.0.0.1
management.tcp.port = $PORT_MANAGEMENT
default_user = $RABBITMQ_USER
default_pass = $RABBITMQ_PASSWORD
default_user_tags.administrator = true
collect_statistics_interval = 1000
log.console = true
log.console.level = info
log.file = false
CONF
}

rabbitmq_start() {
    running rabbitmq && return
    say "Starting RabbitMQ on port $PORT_AMQP"
    rabbitmq_configure
    local folder=$STATE/rabbitmq
    # The node's name is part of its data, so it never changes; a port mapper (epmd) of its own keeps it from meeting
    # a node of the same name. RUNNING_UNDER_SYSTEMD makes the script become the Erlang VM instead of waiting for it.
    # Nothing of the caller's environment gets in: RABBITMQ_* and ERL_* would change all of this.
    detach rabbitmq env -i PATH="$PATH" LANG=C.UTF-8 HOME="$folder/home" \
        ONEJOB_DEV_STATE="$STATE" ONEJOB_DEV_NAME=rabbitmq RUNNING_UNDER_SYSTEMD=true RABBITMQ_LOG=-color \
        ERL_EPMD_PORT="$PORT_EPMD" ERL_EPMD_ADDRESS=127.0.0.1 \
        RABBITMQ_NODENAME=onejob@localhost RABBITMQ_DIST_PORT="$PORT_DISTRIBUTION" \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' \
        RABBITMQ_CONF_ENV_FILE="$folder/rabbitmq-env.conf" RABBITMQ_CONFIG_FILE="$folder/rabbitmq" \
        RABBITMQ_ADVANCED_CONFIG_FILE="$folder/advanced.config" RABBITMQ_GENERATED_CONFIG_DIR="$folder/schema" \
        RABBITMQ_SCHEMA_DIR="$folder/schema" RABBITMQ_ENABLED_PLUGINS_FILE="$folder/enabled_plugins" \
        RABBITMQ_MNESIA_BASE="$folder/mnesia" RABBITMQ_LOG_BASE="$STATE/log" RABBITMQ_PID_FILE="$folder/pid" \
        "$RABBITMQ_SERVER"
}

rabbitmq_answers() {
    HEADER="Authorization: Basic $(printf '%s:%s' $RABBITMQ_USER "$RABBITMQ_PASSWORD" | base64 -w0)" \
        answers_200 "$PORT_MANAGEMENT" "/api/health/checks/port-listener/$PORT_AMQP"
}

rabbitmq_stop() {
    ask_to_stop rabbitmq TERM
    stopped_within 20 rabbitmq || return
    sweep rabbitmq # epmd outlives the node by design
}

rabbitmq_remove() { rm -rf -- "${STATE:?}/rabbitmq"; }
