//! The fields of a request's body: each is taken by name, and what nobody took is refused.

use super::error::quoted;
use super::{BodyError, Json, reader};

/// One field: its text as it was sent, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The text, without the white space around it.
    pub text: String,
    /// The value.
    pub value: Json,
}

/// The fields of an object that have not been taken yet.
///
/// Take every field that the call knows, then call [`finish`](Self::finish), and only then act: a misspelt name is
/// named, and not reported as a missing one.
#[derive(Debug)]
#[must_use = "fields that nobody takes are refused by finish()"]
pub struct Fields {
    /// What stands before a field's name in errors: nothing, or `policy.`.
    prefix: &'static str,
    left: Vec<(String, Field)>,
    /// The names that were asked for, whether they were there or not.
    known: Vec<&'static str>,
}

impl Fields {
    /// Reads a body that must be an object; `max_depth` counts it, as in [`Json::parse`].
    ///
    /// # Errors
    ///
    /// An empty body, text that [`Json::parse`] refuses, a value that is no object.
    pub fn parse(body: &[u8], max_depth: usize) -> Result<Self, BodyError> {
        let text = reader::text(body)?;
        let begin = text.trim_start_matches([' ', '\t', '\n', '\r']);
        if begin.is_empty() {
            return Err(BodyError::Empty);
        }
        if !begin.starts_with('{') {
            return Err(BodyError::NotAnObject(Json::parse(body, max_depth)?.what()));
        }
        Self::within("", text, max_depth)
    }

    /// Reads a body that may be left out: nothing, or white space alone, is an object without fields.
    ///
    /// # Errors
    ///
    /// As [`Fields::parse`], the empty body apart.
    pub fn parse_optional(body: &[u8], max_depth: usize) -> Result<Self, BodyError> {
        match Self::parse(body, max_depth) {
            Err(BodyError::Empty) => Self::within("", "{}", max_depth),
            other => other,
        }
    }

    /// Reads the text of an object that is itself a field.
    pub(super) fn within(prefix: &'static str, text: &str, max_depth: usize) -> Result<Self, BodyError> {
        let members = reader::fields(text, max_depth)?.into_iter();
        let left = members.map(|(name, text, value)| {
            let text = text.to_owned();
            (name, Field { text, value })
        });
        Ok(Self {
            prefix,
            left: left.collect(),
            known: Vec::new(),
        })
    }

    /// Takes a field of any type. `null` is a value, not an absent field.
    pub fn take_raw(&mut self, name: &'static str) -> Option<Field> {
        self.known.push(name);
        let index = self.left.iter().position(|(other, _)| other == name)?;
        Some(self.left.remove(index).1)
    }

    /// Whether a field of that name is left.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.left.iter().any(|(other, _)| other == name)
    }

    /// Takes a string.
    ///
    /// # Errors
    ///
    /// The field is there and is no string; `null` is none.
    pub fn take_str(&mut self, name: &'static str) -> Result<Option<String>, BodyError> {
        self.take_as(name, "a string", |value| match value {
            Json::String(text) => Ok(text),
            other @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => Err(other),
        })
    }

    /// Takes a boolean.
    ///
    /// # Errors
    ///
    /// The field is there and is no boolean; neither `null` nor `"true"` is one.
    pub fn take_bool(&mut self, name: &'static str) -> Result<Option<bool>, BodyError> {
        self.take_as(name, "true or false", |value| match value {
            Json::Bool(value) => Ok(value),
            other @ (Json::Null | Json::String(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => Err(other),
        })
    }

    /// Takes a whole number from `least` to `most`, in any spelling of its exact value (`2`, `2.0`, `20e-1`).
    ///
    /// # Errors
    ///
    /// The field is there and is no such number; `"2"` is none.
    pub fn take_integer(&mut self, name: &'static str, least: u64, most: u64) -> Result<Option<u64>, BodyError> {
        let number = self.take_as(name, "a whole number", |value| match value {
            Json::Number(number) => Ok(number),
            other @ (Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_)) => Err(other),
        })?;
        let Some(number) = number else { return Ok(None) };
        match number.as_u64().filter(|value| (least..=most).contains(value)) {
            Some(value) => Ok(Some(value)),
            None => Err(BodyError::OutOfRange {
                path: self.path(name),
                found: quoted(number.as_written()).replace('"', ""),
                least,
                most,
            }),
        }
    }

    /// Takes an array of strings.
    ///
    /// # Errors
    ///
    /// The field is there and is no array, or has an entry that is no string.
    pub fn take_strings(&mut self, name: &'static str) -> Result<Option<Vec<String>>, BodyError> {
        let items = self.take_as(name, "an array of strings", |value| match value {
            Json::Array(items) => Ok(items),
            other @ (Json::Null | Json::Bool(_) | Json::String(_) | Json::Number(_) | Json::Object(_)) => Err(other),
        })?;
        let Some(items) = items else { return Ok(None) };
        let strings = items.into_iter().enumerate().map(|(index, item)| match item {
            Json::String(text) => Ok(text),
            other @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
                Err(BodyError::WrongType {
                    path: format!("{}[{index}]", self.path(name)),
                    wanted: "a string",
                    found: other.what(),
                })
            }
        });
        strings.collect::<Result<_, _>>().map(Some)
    }

    /// Ends the taking.
    ///
    /// # Errors
    ///
    /// A field that nobody took.
    pub fn finish(self) -> Result<(), BodyError> {
        let Some((name, _)) = self.left.first() else {
            return Ok(());
        };
        Err(BodyError::UnknownField {
            path: format!("{}{}", self.prefix, quoted(name)),
            known: if self.known.is_empty() {
                "none".to_owned()
            } else {
                self.known.join(", ")
            },
        })
    }

    fn take_as<T>(
        &mut self,
        name: &'static str,
        wanted: &'static str,
        convert: impl FnOnce(Json) -> Result<T, Json>,
    ) -> Result<Option<T>, BodyError> {
        let Some(field) = self.take_raw(name) else {
            return Ok(None);
        };
        convert(field.value).map(Some).map_err(|other| BodyError::WrongType {
            path: self.path(name),
            wanted,
            found: other.what(),
        })
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}
