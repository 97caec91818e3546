# shellcheck shell=bash
# What a fresh Debian lacks: by apt as root, else by telling which command to run.

# Where PostgreSQL's programs are: Debian keeps them out of PATH, a folder a version.
find_postgres() {
    local folder program
    PGBIN=
    for folder in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV); do
        [[ -x $folder/postgres && -x $folder/initdb ]] && PGBIN=$folder && return
    done
    program=$(command -v initdb) && PGBIN=$(dirname "$(realpath "$program")") && [[ -x $PGBIN/postgres ]]
}

# RabbitMQ's own script; Debian's in /usr/sbin insists on the system's instance and its user.
find_rabbitmq() {
    local script
    for script in /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server /opt/rabbitmq/sbin/rabbitmq-server; do
        [[ -x $script ]] && RABBITMQ_SERVER=$script && return
    done
    return 1
}

find_cargo() {
    command -v cargo >/dev/null || PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
    command -v cargo >/dev/null ||
        die 2 "cargo is not in PATH. Install Rust (https://rustup.rs), open a new shell, and run this again."
    TARGET=$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    [[ -n $TARGET ]] || die 1 "cargo metadata does not say where it builds; run it by hand to see why."
}

# Packages are named only for what is missing and wanted: with DATABASE_URL and AMQP_URL nothing private is started.
ensure_programs() { # [PROGRAM=PACKAGE...]: more than the usual ones
    local packages=() more
    command -v cc >/dev/null || packages+=(gcc libc6-dev)
    ((!PRIVATE_POSTGRES)) || find_postgres || packages+=(postgresql)
    ((!PRIVATE_RABBITMQ)) || find_rabbitmq || packages+=(rabbitmq-server)
    for more; do
        command -v "${more%%=*}" >/dev/null || packages+=("${more#*=}")
    done
    ((${#packages[@]} == 0)) || apt_install "${packages[@]}"
    ((!PRIVATE_POSTGRES)) || find_postgres || die 1 "PostgreSQL is installed, but postgres and initdb are not found."
    ((!PRIVATE_RABBITMQ)) || find_rabbitmq || die 1 "RabbitMQ is installed, but rabbitmq-server is not found."
}

apt_install() { # PACKAGE...
    local log=$STATE/log/apt.log
    command -v apt-get >/dev/null || die 2 "missing: $*. There is no apt-get here: install PostgreSQL 15 or later and \
RabbitMQ 3.10 or later your system's way, or set DATABASE_URL, AMQP_URL and AMQP_MANAGEMENT_URL."
    ((EUID == 0)) || die 2 "missing: $*. Run this, then try again:
    sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
    say "Installing $* (log: $log)"
    keep_services_down
    run env DEBIAN_FRONTEND=noninteractive apt-get update >"$log" 2>&1 || true # old lists may do
    run env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        die 1 "apt-get could not install $*; its last lines are above. Put that right, or install them by hand."
    }
    let_services_start
}

# Debian starts a server when it is installed. The policy file is Debian's own way to say no; afterwards the servers
# are as any package leaves them, and start at the next boot.
POLICY=/usr/sbin/policy-rc.d
keep_services_down() {
    [[ ! -e $POLICY ]] || return 0
    at_exit let_services_start
    printf '#!/bin/sh\n# by ./dev, while it installs\nexit 101\n' >$POLICY
    chmod 755 $POLICY
}
let_services_start() {
    ! grep -qs 'by ./dev, while it installs' $POLICY || rm -f $POLICY
}
