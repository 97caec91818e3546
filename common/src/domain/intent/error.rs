//! What is wrong with a body: sentences for the one who sent it, each with the place and what to do.
//!
//! They quote names and short values of the body (escaped, and cut), never its contents at length: a problem is logged.

use super::Number;

/// Why a text is not acceptable JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {problem}")]
pub struct JsonError {
    /// Where, in bytes from the beginning of the text.
    pub at: usize,
    /// What is wrong there.
    pub problem: JsonProblem,
}

/// What is wrong at a place of a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// The bytes are not UTF-8.
    #[error("the text is not UTF-8: send it in UTF-8")]
    NotUtf8,
    /// The text begins with a byte order mark.
    #[error("the text begins with a byte order mark: leave it out")]
    ByteOrderMark,
    /// The text breaks JSON's grammar.
    #[error("this is not JSON ({0}): correct it there")]
    Syntax(String),
    /// A string has an escape that stands for no character, or a control character.
    #[error(
        "a string cannot be read ({0}): escape control characters, and write a character beyond U+FFFF as itself or as \
         both halves of its surrogate pair"
    )]
    Text(String),
    /// A string or a name has a NUL.
    #[error("a string or a name has a NUL character, which cannot be stored: leave it out")]
    Nul,
    /// A name stands twice in one object. Holds the name, quoted and cut.
    #[error("the name {0} stands twice in one object, and readers differ in which one they take: keep one")]
    Repeated(String),
    /// There are more levels of objects and arrays than allowed. Holds the limit.
    #[error("objects and arrays are nested more than {0} deep: flatten the value")]
    TooDeep(usize),
    /// A number has too many digits.
    #[error("a number has more than {} digits: send it as a string", Number::MOST_DIGITS)]
    TooManyDigits,
    /// A number has an exponent that is too large or too small.
    #[error("a number has an exponent beyond ±{}: send it as a string", Number::LARGEST_EXPONENT)]
    ExponentTooLarge,
}

/// Why a request's body is not what the call takes. All of them are the client's to correct: `400 body-invalid`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is not acceptable JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// There is nothing.
    #[error("the body is empty: send a JSON object")]
    Empty,
    /// It is JSON, but not an object. Holds what it is.
    #[error("the body is {0}: send a JSON object")]
    NotAnObject(&'static str),
    /// It has a field that the call does not know. Nothing is silently ignored.
    #[error("{path} is not a field of this request: leave it out, or correct its name; known here: {known}")]
    UnknownField {
        /// The field, quoted and cut.
        path: String,
        /// Those that exist.
        known: String,
    },
    /// It has a field that will exist, and does not yet.
    #[error("{0} is not supported yet: leave it out")]
    NotSupportedYet(&'static str),
    /// A field is missing.
    #[error("{0} is missing: add it")]
    Missing(&'static str),
    /// A field has a value of another type.
    #[error("{path} must be {wanted}; it is {found}")]
    WrongType {
        /// The field.
        path: String,
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A number is a fraction, negative, too small or too large.
    #[error("{path} must be a whole number from {least} to {most}; it is {found}")]
    OutOfRange {
        /// The field.
        path: String,
        /// What it is, quoted and cut.
        found: String,
        /// The smallest number allowed.
        least: u64,
        /// The largest number allowed.
        most: u64,
    },
    /// A list is too long.
    #[error("{path} has {found} entries: keep at most {most}")]
    TooMany {
        /// The field.
        path: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// A list of providers names one twice, or the job's own.
    #[error("{path} names {provider}, {why}: leave it out")]
    UselessFallback {
        /// The entry.
        path: String,
        /// The provider.
        provider: String,
        /// Why it can't be of use.
        why: &'static str,
    },
}

/// Why a body is not an intent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// The body is not what the call takes: `400 body-invalid`.
    #[error(transparent)]
    Malformed(#[from] BodyError),
    /// No contract can have this name: `422 contract-unknown`.
    #[error("there is no contract {}: a contract is named with its version, as in ticket-triage@1", quoted(.0))]
    UnknownContract(String),
    /// No provider can have this name, be it the target or a fallback: `422 provider-unknown`.
    #[error("there is no provider {}: a provider's name has only a-z, 0-9, - and _", quoted(.0))]
    UnknownProvider(String),
}

/// The beginning of a client's text, quoted, with everything escaped that could forge a log line.
pub(super) fn quoted(text: &str) -> String {
    const KEPT: usize = 60;
    match text.char_indices().nth(KEPT) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
