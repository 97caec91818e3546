//! A JSON value as strict reading gives it: exact numbers, unique names, strings without NUL.

use super::reader;
use super::{JsonError, Number};

/// A JSON value. Equal means: the same by design §4, whatever the spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`, which is not the same as an absent name.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, as its code points: never normalised.
    String(String),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(Members),
}

/// The members of an object, each name once, in the order in which they were written. Order does not count in `==`.
#[derive(Debug, Clone, Default)]
pub struct Members(Vec<(String, Json)>);

/// A number that is too large for the libraries that compute with 64-bit floats.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the number {0} is beyond what a 64-bit float can hold: send a smaller one, or a string")]
pub struct BeyondFloat(String);

impl Json {
    /// The deepest nesting that can be asked for: it keeps reading, comparing and dropping a value off the stack's end.
    pub const DEEPEST: usize = 100;

    /// Reads one value from the whole of `bytes`.
    ///
    /// `max_depth` is how many objects and arrays may stand in one another, at most [`Json::DEEPEST`].
    ///
    /// # Errors
    ///
    /// Whatever the grammar of JSON refuses, and what it leaves open: a byte order mark, invalid UTF-8, a name that
    /// stands twice in an object (compared after unescaping), half a surrogate pair, a NUL, a number beyond
    /// [`Number`]'s limits, too many levels. Time and memory grow with the length of the text alone.
    pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Self, JsonError> {
        reader::value(reader::text(bytes)?, max_depth)
    }

    /// What it is, as a noun with its article, for errors.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// The text, where it is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// The member of that name, where it is an object that has one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        if let Self::Object(members) = self {
            members.get(name)
        } else {
            None
        }
    }

    /// The value for libraries that compute with it (schemas, rules, templates), names in the order they were written.
    /// Numbers that are not 64-bit integers become floats there, so it is never what is stored, compared or digested.
    ///
    /// # Errors
    ///
    /// A number that no 64-bit float can hold.
    pub fn to_value(&self) -> Result<serde_json::Value, BeyondFloat> {
        use serde_json::Value;
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => serde_json::from_str(number.as_written())
                .map(Value::Number)
                .map_err(|_| BeyondFloat(super::error::quoted(number.as_written())))?,
            Self::String(text) => Value::String(text.clone()),
            Self::Array(items) => Value::Array(items.iter().map(Self::to_value).collect::<Result<_, _>>()?),
            Self::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|(name, value)| Ok((name.to_owned(), value.to_value()?)))
                    .collect::<Result<_, _>>()?,
            ),
        })
    }
}

impl Members {
    /// Takes members whose names are known to be distinct.
    pub(super) const fn of_distinct(members: Vec<(String, Json)>) -> Self {
        Self(members)
    }

    /// In the order in which they were written.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The member of that name. It walks the object: for a few look-ups, not for one a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sorted by name, as UTF-8 bytes (which is by code point).
    pub(super) fn sorted(&self) -> Vec<(&str, &Json)> {
        let mut members: Vec<_> = self.iter().collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        members
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.sorted() == other.sorted()
    }
}

impl Eq for Members {}
