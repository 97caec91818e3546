//! Rows that must not be, written past the code: the schema refuses each.

use onejob_tests::database::Database;

use super::accepted;

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_refuses_what_the_guarantees_forbid() {
    let database = Database::create().await;
    accepted(&database.store).await;
    let copy = |columns: &str, values: &str| {
        format!(
            "INSERT INTO attempts (job_id, number, owner_id, provider, cause, job_version, {columns})
             SELECT id, 2, owner_id, provider, 'retry', 1, {values} FROM jobs"
        )
    };
    let rows = [
        (
            "the same key of the same owner twice",
            "INSERT INTO jobs (id, owner_id, idempotency_key, intent_digest, contract, provider, input, policy)
             SELECT gen_random_uuid(), owner_id, idempotency_key, intent_digest, contract, provider, input, policy FROM jobs"
                .to_owned(),
            "jobs_one_intent_per_key",
        ),
        ("two pending attempts", copy("state", "'queued'"), "attempts_one_pending"),
        (
            "a call without a claim",
            copy("state", "'running'"),
            "attempts_called_was_claimed",
        ),
        (
            "an end without its time",
            copy("state", "'cancelled'"),
            "attempts_ended_has_time",
        ),
        (
            "a failure without its kind",
            copy("state, finished_at", "'failed', now()"),
            "attempts_failed_has_kind",
        ),
        (
            "a state that there is not",
            copy("state", "'finished'"),
            "attempts_state_check",
        ),
        (
            "a second first attempt",
            copy("state, finished_at", "'cancelled', now()").replace("'retry'", "'first'"),
            "attempts_first_is_first",
        ),
        (
            "a digest that is none",
            copy("state, finished_at, result_digest", "'cancelled', now(), 'x'"),
            "attempts_result_digest_check",
        ),
        (
            "a closed job without its time",
            "UPDATE jobs SET state = 'cancelled'".to_owned(),
            "jobs_closed_has_time",
        ),
        (
            "a success without a winner",
            "UPDATE jobs SET state = 'succeeded', finished_at = now(), result = 'x'".to_owned(),
            "jobs_succeeded_has_winner",
        ),
        (
            "a success without a result",
            "UPDATE jobs SET state = 'succeeded', finished_at = now(), completed_by = 1".to_owned(),
            "jobs_succeeded_has_result",
        ),
        (
            "a result of an open job",
            "UPDATE jobs SET result = 'x'".to_owned(),
            "jobs_succeeded_has_result",
        ),
        (
            "a failure without a reason",
            "UPDATE jobs SET state = 'failed', finished_at = now()".to_owned(),
            "jobs_failed_has_error",
        ),
        (
            "a winner that is no attempt of this job",
            "UPDATE jobs SET state = 'succeeded', finished_at = now(), result = 'x', completed_by = 7".to_owned(),
            "jobs_winner_is_an_attempt",
        ),
        (
            "an attempt of no job",
            "INSERT INTO attempts (job_id, number, owner_id, provider, cause, job_version)
             VALUES (gen_random_uuid(), 1, 'o', 'p', 'first', 1)"
                .to_owned(),
            "attempts_job_id_fkey",
        ),
        (
            "a certificate that never ends",
            "INSERT INTO certificates (id, contract, provider, state, contract_digest, provider_digest)
             VALUES (gen_random_uuid(), 'c', 'p', 'passed', sha256('c'), sha256('p'))"
                .to_owned(),
            "certificates_passed_expires",
        ),
        (
            "a role that there is not",
            "INSERT INTO api_keys (id, secret_sha256, owner_id, role) VALUES (gen_random_uuid(), sha256('k'), 'o', 'root')"
                .to_owned(),
            "api_keys_role_check",
        ),
    ];
    for (what, statement, constraint) in rows {
        match database.execute(&statement).await {
            Err(sqlx::Error::Database(error)) => assert_eq!(error.constraint(), Some(constraint), "{what}: {error}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}
