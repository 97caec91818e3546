//! The canonical text of a value, and the digest that an intent is compared by.
//!
//! The canonical text is JSON itself: names sorted by code point, no white space, numbers as [`Number`](super::Number) shows them, strings
//! with only `"`, `\` and control characters escaped. It decides equality and is never stored or sent.
//!
//! It is a contract: a digest that is computed otherwise by a new release turns every repeat of an older job into a
//! conflict. Golden digests in the tests hold it.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::Json;

impl Json {
    /// The text that all spellings of the value share.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        write_value(&mut out, self);
        out
    }
}

fn write_value(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number.to_string()),
        Json::String(text) => write_text(out, text),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (index, (name, value)) in members.sorted().into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(out, name);
                out.push(':');
                write_value(out, value);
            }
            out.push('}');
        }
    }
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            // One form for all of them, where JSON has several for some.
            control @ '\0'..='\u{1f}' => {
                out.push_str("\\u00");
                out.push_str(&hex::encode([control as u8]));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// A SHA-256: of an intent, or of a result's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The bytes, as the database holds them.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// From the database, where a CHECK keeps the length.
impl TryFrom<&[u8]> for Digest {
    type Error = std::array::TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        bytes.try_into().map(Self)
    }
}

/// In lower-case hexadecimal.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Digests fields, each framed by the lengths of its name and value, so that no text can move from one to the next.
pub(super) struct Framed(Sha256);

impl Framed {
    /// `kind` keeps digests of different things apart.
    pub(super) fn new(kind: &str) -> Self {
        let mut framed = Self(Sha256::new());
        framed.frame(kind);
        framed
    }

    pub(super) fn field(mut self, name: &str, value: &str) -> Self {
        self.frame(name);
        self.frame(value);
        self
    }

    pub(super) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }

    fn frame(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }
}
