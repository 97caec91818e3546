//! What can go wrong with the database, as far as callers must tell it apart.

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached, is overloaded or shut the connection: the same statement may work later. Whether it
    /// was carried out is not known.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// A constraint, a type, a statement: repeating it is useless. A defect of ours, or of somebody who wrote past us.
    #[error("the database refused a statement: {0}")]
    Refused(#[source] sqlx::Error),
    /// A row holds a word that this version does not know.
    #[error("the database holds what this version does not know: {0}")]
    Unreadable(String),
}

impl StoreError {
    /// The same error once more, for each member of a group that met it. The cause is kept as its text.
    #[must_use]
    pub fn again(&self) -> Self {
        match self {
            Self::Unavailable(error) => Self::Unavailable(sqlx::Error::Protocol(error.to_string())),
            Self::Refused(error) => Self::Refused(sqlx::Error::Protocol(error.to_string())),
            Self::Unreadable(text) => Self::Unreadable(text.clone()),
        }
    }

    /// Whether repeating makes sense.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Refused(_) | Self::Unreadable(_) => false,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "sqlx may add kinds; an unknown one is not repeated"
    )]
    fn from(error: sqlx::Error) -> Self {
        let transient = match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => true,
            sqlx::Error::Database(database) => database.code().is_some_and(|code| is_transient_code(&code)),
            // Non-exhaustive: what is not named above is a defect of the statement or of the row.
            _ => false,
        };
        if transient {
            Self::Unavailable(error)
        } else {
            Self::Refused(error)
        }
    }
}

/// SQLSTATEs after which the same statement may work: connections (08), resources (53), shutdown and time-outs (57),
/// serialization and deadlock (40), lock time-out (55P03), idle-in-transaction (25P03), I/O and internal trouble (58),
/// a server that is starting or read-only after a fail-over (57P03, 25006).
fn is_transient_code(code: &str) -> bool {
    ["08", "40", "53", "57", "58"]
        .iter()
        .any(|class| code.starts_with(class))
        || ["55P03", "25P03", "25006"].contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlocks_and_shutdowns_are_repeated_and_constraints_are_not() {
        for code in [
            "40001", "40P01", "08006", "57P01", "57P03", "53300", "57014", "55P03", "25006",
        ] {
            assert!(is_transient_code(code), "{code}");
        }
        for code in ["23505", "23514", "23503", "42601", "22P02"] {
            assert!(!is_transient_code(code), "{code}");
        }
    }

    #[test]
    fn a_pool_that_is_used_up_is_a_matter_of_time() {
        assert!(StoreError::from(sqlx::Error::PoolTimedOut).is_transient());
        assert!(!StoreError::from(sqlx::Error::RowNotFound).is_transient());
    }
}
