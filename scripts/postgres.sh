# shellcheck shell=bash
# A private PostgreSQL: data under $STATE/postgres, one port of the loopback, password, no socket file.

DATABASE_USER=onejob
OWN_DATABASE_URL() { printf 'postgres://%s:%s@127.0.0.1:%s/onejob' $DATABASE_USER "$POSTGRES_PASSWORD" "$PORT_POSTGRES"; }

# PostgreSQL refuses to run as root; Debian's package makes a user for it.
as_postgres() {
    if ((EUID == 0)); then
        setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"
    else
        "$@"
    fi
}

# A folder that this user can reach. Where a clone stands in a home that is closed to others, it is one under /tmp.
postgres_folder() {
    PGFOLDER=$STATE/postgres
    if [[ -L $STATE/postgres-dir ]]; then
        PGFOLDER=$(readlink "$STATE/postgres-dir")
    fi
    if [[ -d $PGFOLDER ]] && as_postgres test -w "$PGFOLDER"; then
        return
    fi
    ((EUID != 0)) || id -u postgres >/dev/null 2>&1 ||
        die 2 "PostgreSQL does not run as root and there is no user postgres: install Debian's package, or set DATABASE_URL."
    PGFOLDER=$STATE/postgres
    mkdir -p "$PGFOLDER"
    ((EUID != 0)) || chown postgres: "$PGFOLDER" 2>/dev/null || true
    if ! as_postgres test -w "$PGFOLDER"; then
        rmdir "$PGFOLDER"
        PGFOLDER=$(mktemp -d /tmp/onejob-postgres.XXXXXXXX)
        chown postgres: "$PGFOLDER"
        ln -sfn "$PGFOLDER" "$STATE/postgres-dir"
    fi
}

# Made under another name and renamed, so that an interrupted one is not taken for whole.
postgres_init() {
    local new=$PGFOLDER/new log=$STATE/log/postgres.log
    rm -rf "$new"
    write_private "$PGFOLDER/password" <<<"$POSTGRES_PASSWORD"
    ((EUID != 0)) || chown postgres: "$PGFOLDER/password"
    if ! as_postgres "$PGBIN/initdb" -D "$new" -U $DATABASE_USER --pwfile="$PGFOLDER/password" --auth=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8 --no-sync >>"$log" 2>&1 ||
        ! as_postgres "$PGBIN/postgres" --single -D "$new" postgres <<<'CREATE DATABASE onejob' >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die 1 "PostgreSQL's data folder could not be made; its last lines are above (all: $log)."
    fi
    rm -f "$PGFOLDER/password"
    mv "$new" "$PGFOLDER/data"
}

# After a kill the postmaster's children may live on for a moment, or for ever if they were frozen, and a new postmaster
# would refuse to start beside them. Every process of PostgreSQL stands in its data folder.
postgres_children() {
    find /proc/[0-9]*/cwd -maxdepth 0 -printf '%p %l\n' 2>/dev/null |
        DATA=$(realpath -m "$PGFOLDER")/data awk '{ cwd = substr($0, index($0, " ") + 1); split($1, part, "/") }
            cwd == ENVIRON["DATA"] { print part[3] }'
}
no_postgres_children() { [[ -z $(postgres_children) ]]; }
clear_postgres_children() {
    local left
    mapfile -t left < <(postgres_children)
    ((${#left[@]})) || return 0
    kill -KILL "${left[@]}" 2>/dev/null || true
    wait_until 10 no_postgres_children ||
        die 1 "processes of an earlier PostgreSQL do not end: $(postgres_children | tr '\n' ' '). Kill them, then try again."
}

postgres_start() {
    running postgres && return
    say "Starting PostgreSQL ($("$PGBIN/postgres" --version | awk '{print $3}')) on port $PORT_POSTGRES"
    postgres_folder
    [[ -d $PGFOLDER/data ]] || postgres_init
    clear_postgres_children
    # Nobody uses this folder, as was just seen: a lock left by a killed postmaster would be believed if its number is
    # another process by now.
    rm -f "$PGFOLDER/data/postmaster.pid"
    local how=()
    ((EUID != 0)) || how=(setpriv --reuid=postgres --regid=postgres --init-groups --)
    # Durable as PostgreSQL is by default, but for the tests: their databases live for seconds, and making a few hundred
    # of them waits for the disk more than for anything else. A killed process loses nothing either way.
    detach postgres "${how[@]}" "$PGBIN/postgres" -D "$PGFOLDER/data" -c port="$PORT_POSTGRES" \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections="${POSTGRES_CONNECTIONS:-200}" \
        -c fsync="${POSTGRES_FSYNC:-on}" -c cluster_name=onejob
}

postgres_accepts() { "$PGBIN/pg_isready" -q -h 127.0.0.1 -p "$PORT_POSTGRES" -t 2; }

postgres_stop() {
    ask_to_stop postgres INT # at once, but in order: sessions are ended, nothing is lost
    stopped_within 15 postgres || return
    PGFOLDER=$STATE/postgres
    [[ ! -L $STATE/postgres-dir ]] || PGFOLDER=$(readlink "$STATE/postgres-dir")
    clear_postgres_children
}

postgres_remove() {
    [[ ! -L $STATE/postgres-dir ]] || rm -rf -- "$(readlink "$STATE/postgres-dir")" "$STATE/postgres-dir"
    rm -rf -- "${STATE:?}/postgres"
}
