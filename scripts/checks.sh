# shellcheck shell=bash
# `./dev test` and `./dev sqlx`: on a PostgreSQL and a RabbitMQ of their own under .dev/test, beside any stack that is up.

MEMBERS=(api cli common simulator tests worker)

# --- phases: all are run, and the first failure is the exit status

FIRST_FAILURE=0
FAILED_PHASES=()

phase() { # TITLE COMMAND...
    local title=$1 status=0 start word=ok
    start=$(now_ms)
    shift
    printf '\n== %s\n' "$title"
    "$@" || status=$?
    ((status == 0)) || {
        word="FAILED ($status)"
        FAILED_PHASES+=("$title")
        ((FIRST_FAILURE != 0)) || FIRST_FAILURE=$status
    }
    say "== $title: $word, $(seconds_since "$start")"
    return "$status"
}

seconds_since() { # MILLISECONDS
    local spent=$(($(now_ms) - $1))
    printf '%d.%d s' $((spent / 1000)) $((spent % 1000 / 100))
}

check_all() { # ARGS for cargo test
    local start
    start=$(now_ms)
    test_services postgres rabbitmq
    if (($# == 0)); then
        ensure_component fmt rustfmt
        ensure_component clippy clippy
        phase formatting run cargo fmt --all --check || true
        phase lints run cargo clippy --workspace --all-targets --quiet -- -D warnings || true
        phase 'scripts' check_scripts || true
    fi
    services_await
    (($# > 0)) || phase '.sqlx against the migrations' check_sqlx || true
    if phase build run cargo build --workspace --bins; then
        phase tests run_tests "$@" || true
    fi
    if ((FIRST_FAILURE)); then
        printf '\n./dev test: FAILED in %s: %s\n' "$(seconds_since "$start")" "$(printf '%s, ' "${FAILED_PHASES[@]}" | sed 's/, $//')"
    else
        printf '\n./dev test: all passed in %s\n' "$(seconds_since "$start")"
    fi
    exit "$FIRST_FAILURE"
}

run_tests() {
    local which=(--workspace)
    case " $* " in *' -p '* | *' -p'[a-z]* | *' --package'*) which=() ;; esac
    run_as_ours cargo test "${which[@]}" "$@"
}

check_scripts() {
    command -v shellcheck >/dev/null || {
        say "shellcheck is not installed: not checked"
        return 0
    }
    run shellcheck -xa dev .ci/run
}

ensure_component() { # SUBCOMMAND COMPONENT
    cargo "$1" --version >/dev/null 2>&1 && return
    say "Adding Rust's $2"
    run rustup component add "$2" || die 2 "cargo $1 is missing; add Rust's component $2, then run this again."
}

# --- the services of the tests

# Roles that may create databases: each test has its own. More connections than a stack needs, for tests that race many.
test_services() { # postgres [rabbitmq]
    POSTGRES_FSYNC=off POSTGRES_CONNECTIONS=400
    use_state "$ROOT/.dev/test"
    lock 0 "another ./dev test or ./dev sqlx is at work; wait for it, or stop it."
    load_settings
    services_stop # what a killed run left
    find "$STATE/log" -type f -delete
    load_settings again
    choose_services
    [[ " $* " == *' rabbitmq '* ]] || PRIVATE_RABBITMQ=0
    find_cargo
    ensure_programs psql=postgresql-client
    at_exit services_stop
    services_start
}

# --- .sqlx: what the query macros know of the database, so that builds need none

QUERY_MACRO='\bquery(_as|_scalar|_file|_file_as|_file_scalar)?(_unchecked)?!'

files_with_queries() { grep -rlE --include='*.rs' "$QUERY_MACRO" "${MEMBERS[@]}" | sort; }

sql() { psql "$1" -Xqv ON_ERROR_STOP=1 "${@:2}"; } # URL ARGS...

# Lets the macros ask a fresh database with all migrations, and write down the answers.
describe_queries() { # FOLDER
    local files database=onejob_sqlx_$$ url query='' packages=() member migration status=0
    mapfile -t files < <(files_with_queries)
    ((${#files[@]})) || return 0
    [[ $DATABASE_URL != *\?* ]] || query="?${DATABASE_URL#*\?}"
    url=${DATABASE_URL%%\?*}
    url=${url%/*}/$database$query
    sql "$DATABASE_URL" -c "CREATE DATABASE $database" || return
    for migration in migrations/*.sql; do
        # As sqlx runs them: each in one transaction, unless its first line says otherwise.
        local one=(-1)
        [[ $(head -n 1 "$migration") != '-- no-transaction'* ]] || one=()
        sql "$url" "${one[@]}" -f "$migration" || {
            status=$?
            break
        }
    done
    for member in "${MEMBERS[@]}"; do
        [[ $'\n'$(printf '%s\n' "${files[@]}") != *$'\n'"$member/"* ]] || packages+=(-p "onejob-$member")
    done
    # cargo does not see that the macros would find something else now; a newer file it does see.
    touch -c -- "${files[@]}"
    ((status)) || run env DATABASE_URL="$url" SQLX_OFFLINE=false SQLX_OFFLINE_DIR="$1" \
        cargo check --quiet "${packages[@]}" --all-targets || status=$?
    sql "$DATABASE_URL" -c "DROP DATABASE $database WITH (FORCE)" || true
    return "$status"
}

# Asks the database only when queries, migrations or answers have changed since they were last found to agree.
check_sqlx() {
    local folder=$STATE/sqlx stamp
    stamp=$(sqlx_stamp)
    if [[ $stamp == "$(cat "$STATE/sqlx-agrees" 2>/dev/null)" ]]; then
        say "unchanged since the last check"
        return 0
    fi
    rm -rf "$folder" && mkdir -p "$folder" && describe_queries "$folder" || return
    mkdir -p .sqlx
    diff -rq "$folder" .sqlx || {
        say ".sqlx/ is not what the queries and migrations give. Run ./dev sqlx and commit .sqlx/."
        return 1
    }
    rmdir --ignore-fail-on-non-empty .sqlx
    printf '%s' "$stamp" >"$STATE/sqlx-agrees"
}

sqlx_stamp() {
    # shellcheck disable=SC2046 # the project's own file names have no spaces
    cat $(files_with_queries) $(find migrations .sqlx -type f 2>/dev/null | sort) Cargo.lock | sha256sum
}

refresh_sqlx() {
    local folder
    test_services postgres
    services_await
    folder=$STATE/sqlx
    rm -rf "$folder" && mkdir -p "$folder"
    describe_queries "$folder" || die 1 "the queries and migrations do not agree; the messages are above."
    rm -rf .sqlx && mv "$folder" .sqlx
    say ".sqlx/ has $(find .sqlx -type f | wc -l) queries; commit it."
}
