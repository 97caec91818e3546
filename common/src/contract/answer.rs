//! The check of an answer: one rule a case, nothing repaired, nothing converted.
//!
//! | answer | ends as |
//! |---|---|
//! | white space or a line break around the JSON | fine: JSON allows it |
//! | a code fence, text before or after, two values, a byte order mark, `NaN` | not strict JSON |
//! | a name twice, a NUL, half a surrogate pair, invalid UTF-8 | not strict JSON |
//! | JSON within a JSON string, `[…]` around it, an extra key, `"4"` or `4.5` for an integer | against the schema |
//! | `4.0` for an integer | fine: JSON Schema counts it as one |

use bytes::Bytes;

use super::{Contract, rules};
use crate::domain::intent::Json;

/// How deep an answer may nest: deeper than any that a schema can describe usefully, and safe to walk.
const DEEPEST: usize = 64;

/// Why an input is not what the contract takes: `422 input-invalid`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the input does not fit the contract: {0}")]
pub struct InputInvalid(pub(super) String);

/// What an answer broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViolationKind {
    /// It is not JSON, or JSON that two readers would read differently.
    NotStrictJson,
    /// It is JSON, but not of the shape that the schema describes.
    Schema,
    /// It has the shape, but a rule over input and output does not hold.
    Rule,
}

impl ViolationKind {
    /// A word for labels and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotStrictJson => "not_strict_json",
            Self::Schema => "schema",
            Self::Rule => "rule",
        }
    }
}

/// Why an answer does not keep the contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Violation {
    /// Which check it failed.
    pub kind: ViolationKind,
    /// What and where, for people. It shows names of the answer, not its values.
    pub sentence: String,
}

/// An answer that keeps its contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedAnswer {
    raw: Bytes,
    value: Json,
}

impl CheckedAnswer {
    /// The bytes that came: they are the result.
    #[must_use]
    pub const fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The bytes alone.
    #[must_use]
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// Their value.
    #[must_use]
    pub const fn value(&self) -> &Json {
        &self.value
    }
}

pub(super) fn check(contract: &Contract, input: &Json, raw: Bytes) -> Result<CheckedAnswer, Violation> {
    let broken = |kind, sentence| Violation { kind, sentence };
    let value = Json::parse(&raw, DEEPEST).map_err(|error| {
        let problem = match fence(&raw) {
            true => "the JSON stands in a code fence".to_owned(),
            false => error.to_string(),
        };
        let sentence = super::brief(&format!("the answer is not strict JSON: {problem}"));
        broken(ViolationKind::NotStrictJson, sentence)
    })?;
    contract.output.check(&value).map_err(|problems| {
        let sentence = format!("the answer does not fit the output schema: {problems}");
        broken(ViolationKind::Schema, sentence)
    })?;
    match rules::broken(&contract.rules, input, &value) {
        None => Ok(CheckedAnswer { raw, value }),
        Some(sentence) => Err(broken(ViolationKind::Rule, sentence)),
    }
}

fn fence(raw: &[u8]) -> bool {
    raw.trim_ascii_start().starts_with(b"```")
}
