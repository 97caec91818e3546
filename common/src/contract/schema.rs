//! JSON Schemas: closed, compiled once, and with errors that say what is wrong where, without showing the value.
//!
//! **Closed**: an object schema that says nothing of other properties gets `additionalProperties: false`, since providers
//! that invent a key are common and nobody writes that line everywhere. Where several schemas apply to one object
//! (`allOf`, `anyOf` beside `properties`, `$ref`, `then`) that would forbid what the others allow, so there the author
//! has to say it. Conditions (`if`, `not`, `contains`) are left alone: closing them would change what they ask.
//!
//! Hazards: a `pattern` runs on a linear-time engine (look-around is refused when loading); no reference leaves the file;
//! numbers that no 64-bit float holds are checked as the largest float, see [`for_checking`].

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::brief;
use super::file::line_of;
use crate::domain::intent::{Json, Number};

/// How many errors of one value are told.
const MOST_ERRORS: usize = 5;
/// Above this many values within a value only the first error is told: all are collected before the first is shown.
const MANY_VALUES: usize = 2_000;
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What may stand in a schema. A misspelt keyword would be ignored by every validator, and weaken the contract silently.
const KEYWORDS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$ref",
    "$schema",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "default",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

/// What is wrong with a schema, and in which line of it (from 1).
pub(super) struct SchemaError {
    pub line: usize,
    pub problem: String,
}

/// A compiled schema and the text that providers get.
pub(super) struct Schema {
    text: Arc<RawValue>,
    value: Value,
    validator: Validator,
}

impl Schema {
    pub fn compile(text: &str) -> Result<Self, SchemaError> {
        let whole = |problem: String| SchemaError { line: 1, problem };
        let json = Json::parse(text.as_bytes(), Json::DEEPEST).map_err(|error| SchemaError {
            line: line_of(text, error.at),
            problem: error.problem.to_string(),
        })?;
        let mut value = json.to_value().map_err(|error| whole(error.to_string()))?;
        if value.get("type").and_then(Value::as_str) != Some("object") {
            return Err(whole(
                "the schema must be one of an object: begin it with \"type\": \"object\"".into(),
            ));
        }
        if value.get("$schema").is_some_and(|schema| schema != DRAFT) {
            return Err(whole(format!("$schema must be {DRAFT}, or absent")));
        }
        close(&mut value, "", Applies::Alone).map_err(whole)?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .should_validate_formats(true)
            .should_ignore_unknown_formats(false)
            .with_pattern_options(PatternOptions::regex())
            .build(&value)
            .map_err(|error| whole(format!("at {}: {error}", place(error.instance_path().as_str()))))?;
        let text = RawValue::from_string(value.to_string())
            .map_err(|error| whole(error.to_string()))?
            .into();
        Ok(Self { text, value, validator })
    }

    /// The closed schema, as compact JSON: these bytes are in every request.
    pub const fn text(&self) -> &Arc<RawValue> {
        &self.text
    }

    /// Whether every answer has a property of that name that may be any text.
    pub fn has_free_text(&self, name: &str) -> bool {
        let property = self.value.get("properties").and_then(|all| all.get(name));
        property.is_some_and(|property| {
            property.get("type").and_then(Value::as_str) == Some("string")
                && ["enum", "const", "pattern", "format", "$ref"]
                    .iter()
                    .all(|keyword| property.get(keyword).is_none())
        }) && self
            .value
            .get("required")
            .and_then(Value::as_array)
            .is_some_and(|all| all.iter().any(|one| one == name))
    }

    /// Checks a value; the error is a sentence with the place of each problem.
    pub fn check(&self, json: &Json) -> Result<(), String> {
        let value = for_checking(json);
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        let most = if values_within(&value, MANY_VALUES) < MANY_VALUES {
            MOST_ERRORS
        } else {
            1
        };
        let mut told: Vec<String> = Vec::new();
        let mut more = 0;
        if most == 1 {
            told.extend(self.validator.validate(&value).err().map(|error| sentence(&error)));
        } else {
            for error in self.validator.iter_errors(&value) {
                if told.len() < most {
                    told.push(sentence(&error));
                } else {
                    more += 1;
                }
            }
        }
        let mut text = told.join("; ");
        if more > 0 {
            text.push_str(&format!("; and {more} more"));
        }
        Err(text)
    }
}

fn sentence(error: &jsonschema::ValidationError<'_>) -> String {
    let path = error.instance_path().as_str();
    brief(&format!("at {}: {}", place(path), error.masked_with("the value")))
}

/// A JSON pointer for people: the empty one is hard to read.
fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "the top" } else { pointer }
}

fn values_within(value: &Value, limit: usize) -> usize {
    fn walk(value: &Value, left: &mut usize) {
        *left = left.saturating_sub(1);
        match value {
            Value::Array(items) => items.iter().take(*left).for_each(|item| walk(item, left)),
            Value::Object(members) => members.values().take(*left).for_each(|member| walk(member, left)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut left = limit;
    walk(value, &mut left);
    limit - left
}

/// The value as the validator takes it.
///
/// Whole numbers of 64 bits are exact there; others become the nearest float, and one beyond all floats the largest, so
/// that a limit on its size still holds. An input that is open for any value takes such numbers, and prompts show them
/// as they were written.
pub(super) fn for_checking(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => Value::Number(checked_number(number)),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(for_checking).collect()),
        Json::Object(members) => members
            .iter()
            .map(|(name, value)| (name.to_owned(), for_checking(value)))
            .collect(),
    }
}

/// A number as JSON libraries hold it.
pub(super) fn checked_number(number: &Number) -> serde_json::Number {
    let text = number.as_written();
    serde_json::from_str(text).unwrap_or_else(|_| {
        let largest = if text.starts_with('-') { f64::MIN } else { f64::MAX };
        serde_json::Number::from_f64(largest).unwrap_or_else(|| 0.into())
    })
}

/// How a schema applies to its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applies {
    /// It alone describes the value.
    Alone,
    /// Another schema describes the same value.
    Together,
    /// It asks something, and does not decide by itself.
    AsCondition,
}

/// Closes every object schema that does not say whether it is open.
fn close(schema: &mut Value, at: &str, applies: Applies) -> Result<(), String> {
    // Booleans are schemas too; anything else is refused by the compiler, with its place.
    let Value::Object(members) = schema else {
        return Ok(());
    };
    if let Some(unknown) = members.keys().find(|key| !KEYWORDS.contains(&key.as_str())) {
        return Err(format!(
            "at {}: {unknown} is not a keyword of JSON Schema 2020-12: correct its name",
            place(at)
        ));
    }
    let object = is_object_schema(members);
    let beside = if object && applies == Applies::Alone {
        Applies::Together
    } else {
        applies
    };
    for (keyword, child) in members.iter_mut() {
        let at = format!("{at}/{keyword}");
        let within = |applies: Applies| {
            if applies == Applies::AsCondition {
                applies
            } else {
                Applies::Alone
            }
        };
        match keyword.as_str() {
            "properties" | "patternProperties" => each(child, &at, within(applies))?,
            "$defs" => each(child, &at, Applies::Alone)?,
            "items" | "prefixItems" | "additionalProperties" | "unevaluatedItems" | "unevaluatedProperties" => {
                one_or_each(child, &at, within(applies))?;
            }
            "anyOf" | "oneOf" => one_or_each(child, &at, beside)?,
            "allOf" | "then" | "else" => {
                let together = if applies == Applies::AsCondition {
                    applies
                } else {
                    Applies::Together
                };
                one_or_each(child, &at, together)?;
            }
            "dependentSchemas" => each(child, &at, beside)?,
            "if" | "not" | "contains" | "propertyNames" => close(child, &at, Applies::AsCondition)?,
            _ => {}
        }
    }
    let says = ["additionalProperties", "unevaluatedProperties"]
        .iter()
        .any(|keyword| members.contains_key(*keyword));
    if !object || says || applies == Applies::AsCondition {
        return Ok(());
    }
    let shared = ["$ref", "allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas"]
        .iter()
        .any(|keyword| members.contains_key(*keyword));
    if shared || applies == Applies::Together {
        return Err(format!(
            "at {}: several schemas describe this object, so closing one by itself could forbid what another allows: \
             write additionalProperties or unevaluatedProperties here, true or false",
            place(at)
        ));
    }
    members.insert("additionalProperties".into(), Value::Bool(false));
    Ok(())
}

fn is_object_schema(members: &Map<String, Value>) -> bool {
    let typed = match members.get("type") {
        Some(Value::String(one)) => one == "object",
        Some(Value::Array(several)) => several.iter().any(|one| one == "object"),
        Some(_) | None => false,
    };
    let listed = members.contains_key("enum") || members.contains_key("const");
    !listed && (typed || members.contains_key("properties") || members.contains_key("patternProperties"))
}

/// The schemas of an object of them, by name.
fn each(schemas: &mut Value, at: &str, applies: Applies) -> Result<(), String> {
    let Value::Object(members) = schemas else {
        return Ok(());
    };
    members
        .iter_mut()
        .try_for_each(|(name, schema)| close(schema, &format!("{at}/{name}"), applies))
}

/// One schema, or those of an array.
fn one_or_each(schemas: &mut Value, at: &str, applies: Applies) -> Result<(), String> {
    let Value::Array(items) = schemas else {
        return close(schemas, at, applies);
    };
    items
        .iter_mut()
        .enumerate()
        .try_for_each(|(index, schema)| close(schema, &format!("{at}/{index}"), applies))
}
