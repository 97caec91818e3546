-- Jobs, attempts and what is known about them. The guarantees (docs/guarantees.md) stand here as constraints: code that
-- is wrong is refused, whatever it believes.
--
-- Every index on attempts costs 5-10 % of the whole cycle, since a state change rewrites them all. Each has its reason.

CREATE TABLE jobs (
    id              uuid        PRIMARY KEY,
    owner_id        text        NOT NULL CHECK (length(owner_id) BETWEEN 1 AND 100),
    -- Scoped to the owner, never to a session: the same key of two owners is two jobs (G2).
    idempotency_key text        NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    -- SHA-256 of the canonical intent: what "the same intent" means (G3).
    intent_digest   bytea       NOT NULL CHECK (length(intent_digest) = 32),
    contract        text        NOT NULL,
    provider        text        NOT NULL,
    -- The bytes that were accepted: text, because jsonb would change numbers, spacing and the order of names.
    input           text        NOT NULL,
    policy          jsonb       NOT NULL CHECK (jsonb_typeof(policy) = 'object'),
    -- The W3C trace that the client began. NULL: the job's id is the trace's id.
    traceparent     text        CHECK (length(traceparent) = 55),
    state           text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'succeeded', 'failed', 'cancelled')),
    -- Moves when the slot closes or is reopened, and not between: settling compares it (G7).
    version         bigint      NOT NULL DEFAULT 1 CHECK (version >= 1),
    completed_by    smallint,
    -- The bytes that came: a jsonb column cannot hold every answer.
    result          bytea,
    error           jsonb,
    deadline        timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,

    CONSTRAINT jobs_one_intent_per_key UNIQUE (owner_id, idempotency_key),
    CONSTRAINT jobs_closed_has_time    CHECK ((state = 'open') = (finished_at IS NULL)),
    CONSTRAINT jobs_succeeded_has_winner CHECK ((state = 'succeeded') = (completed_by IS NOT NULL)),
    CONSTRAINT jobs_succeeded_has_result CHECK ((state = 'succeeded') = (result IS NOT NULL)),
    CONSTRAINT jobs_failed_has_error   CHECK ((state = 'failed') = (error IS NOT NULL))
);

-- Lists of one owner's jobs, newest first: without it the list of a small owner walks everybody's jobs.
CREATE INDEX jobs_of_owner ON jobs (owner_id, id);

CREATE TABLE attempts (
    job_id          uuid        NOT NULL REFERENCES jobs (id),
    number          smallint    NOT NULL CHECK (number >= 1),
    owner_id        text        NOT NULL,
    provider        text        NOT NULL,
    cause           text        NOT NULL CHECK (cause IN ('first', 'retry', 'fallback', 'hedge', 'manual')),
    state           text        NOT NULL DEFAULT 'queued' CHECK (state IN
                                ('queued', 'starting', 'running', 'unknown', 'succeeded', 'lost', 'failed', 'cancelled')),
    -- The job's version that this attempt may settle, and no other.
    job_version     bigint      NOT NULL,
    run_at          timestamptz NOT NULL DEFAULT now(),
    -- When the reconciler looks, if nothing has happened until then: publish it (queued), check its worker and call
    -- deadline (starting, running), ask its provider (unknown). NULL: it waits for a person.
    look_at         timestamptz,
    worker_id       uuid,
    provider_handle text,
    probes          integer     NOT NULL DEFAULT 0,
    failure_kind    text        CHECK (failure_kind IN ('rejected', 'rate_limited', 'overloaded', 'provider_error',
                                'unreachable', 'contract_violation', 'truncated', 'refused', 'poison', 'not_executed')),
    failure_detail  text,
    -- Of the answer, also of one that lost and was dropped: what was paid for stays provable.
    result_digest   bytea       CHECK (length(result_digest) = 32),
    result_bytes    bigint,
    usage           jsonb,
    cost            double precision,
    created_at      timestamptz NOT NULL DEFAULT now(),
    started_at      timestamptz,
    acknowledged_at timestamptz,
    finished_at     timestamptz,

    PRIMARY KEY (job_id, number),
    CONSTRAINT attempts_ended_has_time CHECK
        ((state IN ('succeeded', 'lost', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT attempts_failed_has_kind CHECK ((state = 'failed') = (failure_kind IS NOT NULL)),
    CONSTRAINT attempts_first_is_first CHECK ((cause = 'first') = (number = 1)),
    CONSTRAINT attempts_called_was_claimed CHECK
        (state NOT IN ('starting', 'running', 'unknown', 'succeeded', 'lost') OR started_at IS NOT NULL)
)
-- An attempt is updated two or three times in its life; room on its page keeps the versions together.
WITH (fillfactor = 80);

-- G4: one attempt of a job at most that has not begun for certain. An unknown sibling is checked by the guarded insert,
-- under a lock on the job, since an unknown may stand beside a hedge that is still running.
CREATE UNIQUE INDEX attempts_one_pending ON attempts (job_id) WHERE state IN ('queued', 'starting');

-- What the reconciler works through; it holds open work only, so its cost does not grow with history.
CREATE INDEX attempts_to_look_at ON attempts (look_at) WHERE state IN ('queued', 'starting', 'running', 'unknown');

-- The winner is an attempt of this very job.
ALTER TABLE jobs ADD CONSTRAINT jobs_winner_is_an_attempt FOREIGN KEY (id, completed_by) REFERENCES attempts (job_id, number);

-- Append-only: what the attempt's own columns can't tell. The plain way (queued, starting, running, succeeded) writes none.
CREATE TABLE attempt_events (
    job_id     uuid        NOT NULL,
    number     smallint    NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor      text        NOT NULL,
    from_state text,
    to_state   text,
    detail     jsonb       NOT NULL DEFAULT '{}',

    FOREIGN KEY (job_id, number) REFERENCES attempts (job_id, number)
);
CREATE INDEX attempt_events_of_attempt ON attempt_events (job_id, number, at);

-- One row a process: liveness costs a write a second for each worker, not one for each attempt.
CREATE TABLE workers (
    id           uuid        PRIMARY KEY,
    role         text        NOT NULL,
    host         text        NOT NULL,
    pid          integer     NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    stopped_at   timestamptz
);

CREATE TABLE certificates (
    id              uuid        PRIMARY KEY,
    contract        text        NOT NULL,
    provider        text        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('running', 'passed', 'failed')),
    -- It says that exactly this provider passed exactly this contract, so it lapses when either digest changes (G9).
    contract_digest bytea       NOT NULL CHECK (length(contract_digest) = 32),
    provider_digest bytea       NOT NULL CHECK (length(provider_digest) = 32),
    checks          jsonb       NOT NULL DEFAULT '[]',
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz,
    revoked_at      timestamptz,

    CONSTRAINT certificates_passed_expires CHECK (state <> 'passed' OR expires_at IS NOT NULL)
);
CREATE INDEX certificates_of_contract ON certificates (contract, provider, created_at);

CREATE TABLE api_keys (
    id            uuid        PRIMARY KEY,
    -- Only a SHA-256 of the secret is kept; the secret has 256 random bits, so it needs no salt.
    secret_sha256 bytea       NOT NULL UNIQUE CHECK (length(secret_sha256) = 32),
    owner_id      text        NOT NULL CHECK (length(owner_id) BETWEEN 1 AND 100),
    role          text        NOT NULL CHECK (role IN ('producer', 'operator')),
    name          text        NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL DEFAULT now(),
    revoked_at    timestamptz
);
