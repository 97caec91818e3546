//! A value that is valid under a JSON Schema, made from the schema and a seed.
//!
//! Covers what structured outputs use: the types, `enum`, `const`, bounds of numbers, strings and arrays, `properties`
//! and `required`, `anyOf`/`oneOf` (the first branch), local `$ref`. A keyword that could make the value invalid and is
//! not covered is an error that names it, never a value that may be wrong. Annotations and unknown keywords are
//! ignored, as the specification has it. Recursive schemas end: deep down, optional properties and items are left out.

mod number;

use serde_json::{Map, Value, json};

use self::number::{bound, integer, number};
use super::text::{self, Instruction};

/// Keywords that restrict a value and are not covered.
const NOT_COVERED: [&str; 16] = [
    "not",
    "if",
    "then",
    "else",
    "pattern",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "contains",
    "prefixItems",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
];

/// Keywords that say nothing about the value, and so may stand beside `$ref`, `anyOf` or `oneOf`.
const ANNOTATIONS: [&str; 12] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$schema",
    "$id",
    "$defs",
    "definitions",
];

/// Below it, only what is required is made.
const ROOMY_DEPTH: usize = 4;
/// No schema of use is deeper; a required recursion has no finite value.
const DEEPEST: usize = 64;
/// Values and characters in one answer: `minItems` and `minLength` are the client's numbers.
const MOST_VALUES: usize = 10_000;
const MOST_TEXT: usize = 1 << 20;

/// Why no value can be made.
#[derive(Debug, PartialEq, Eq)]
pub struct Unmakeable {
    path: String,
    why: String,
}

impl std::fmt::Display for Unmakeable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the simulator makes no value for the schema at #{}: {}",
            self.path, self.why
        )
    }
}

/// An object for a request that wants JSON but gives no schema.
pub fn object(seed: u64, instruction: Option<&Instruction>) -> Value {
    let mut value = json!({"answer": text::words(seed, 24)});
    if let Some(Instruction { field, word }) = instruction {
        value[field] = Value::String(format!("{word} {}", text::words(seed, 12)));
    }
    value
}

/// A schema to make values for.
pub struct Schema<'a> {
    root: &'a Value,
    values: usize,
    text: usize,
}

/// Where in the value we are.
struct Place<'a> {
    path: String,
    seed: u64,
    depth: usize,
    /// References followed without going deeper: `{"$ref": "#"}` has no value.
    hops: usize,
    instruction: Option<&'a Instruction>,
    /// The word that the string here begins with.
    word: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn inside(&self, step: &str, key: &str) -> Place<'a> {
        let top = self.instruction.filter(|_| self.depth == 0);
        Place {
            path: format!("{}/{step}", self.path),
            seed: text::hash(self.seed, key.as_bytes()),
            depth: self.depth + 1,
            hops: 0,
            instruction: None,
            word: top
                .filter(|instruction| instruction.field == key)
                .map(|instruction| instruction.word.as_str()),
        }
    }

    fn hop(&self, step: &str) -> Place<'a> {
        let path = if let Some(target) = step.strip_prefix('#') {
            target.to_owned()
        } else {
            format!("{}/{step}", self.path)
        };
        Place {
            path,
            seed: self.seed,
            depth: self.depth,
            hops: self.hops + 1,
            instruction: self.instruction,
            word: self.word,
        }
    }

    fn err(&self, why: impl Into<String>) -> Unmakeable {
        Unmakeable {
            path: self.path.clone(),
            why: why.into(),
        }
    }
}

type Made = Result<Value, Unmakeable>;

impl<'a> Schema<'a> {
    pub fn new(root: &'a Value) -> Self {
        Self {
            root,
            values: 0,
            text: 0,
        }
    }

    /// The value for a seed; its top-level string field that the instruction names begins with the word.
    pub fn value(mut self, seed: u64, instruction: Option<&Instruction>) -> Made {
        let place = Place {
            path: String::new(),
            seed,
            depth: 0,
            hops: 0,
            instruction,
            word: None,
        };
        self.make(self.root, &place)
    }

    fn make(&mut self, schema: &Value, place: &Place<'_>) -> Made {
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(place.err(format!("it asks for more than {MOST_VALUES} values")));
        }
        if place.depth > DEEPEST || place.hops > DEEPEST {
            return Err(place.err("it requires a value without end"));
        }
        let schema = match schema {
            Value::Bool(true) => return self.string(&Map::new(), place),
            Value::Bool(false) => return Err(place.err("false allows no value")),
            Value::Object(schema) => schema,
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(place.err("a schema is an object or a boolean"));
            }
        };
        if let Some(keyword) = NOT_COVERED.iter().find(|keyword| schema.contains_key(**keyword)) {
            return Err(place.err(format!("`{keyword}` is not covered")));
        }
        if let Some(value) = schema.get("const") {
            return Ok(value.clone());
        }
        if let Some(values) = schema.get("enum") {
            let values = values.as_array().filter(|values| !values.is_empty());
            let values = values.ok_or_else(|| place.err("`enum` must be an array that is not empty"))?;
            return Ok(values[text::pick(place.seed, values.len())].clone());
        }
        if let Some(made) = self.elsewhere(schema, place) {
            return made;
        }
        match kind(schema) {
            Some("object") => self.object(schema, place),
            Some("array") => self.array(schema, place),
            Some("integer") => integer(schema, place),
            Some("number") => number(schema, place),
            Some("boolean") => Ok(Value::Bool(text::pick(place.seed, 2) == 1)),
            Some("null") => Ok(Value::Null),
            Some("string") | None => self.string(schema, place),
            Some(other) => Err(place.err(format!("`type` {other} does not exist"))),
        }
    }

    /// A schema that only points to another one.
    fn elsewhere(&mut self, schema: &Map<String, Value>, place: &Place<'_>) -> Option<Made> {
        let keyword = ["$ref", "anyOf", "oneOf", "allOf"]
            .into_iter()
            .find(|keyword| schema.contains_key(*keyword))?;
        let beside = schema
            .keys()
            .find(|key| *key != keyword && !ANNOTATIONS.contains(&key.as_str()));
        if let Some(beside) = beside {
            return Some(Err(place.err(format!("`{keyword}` beside `{beside}` is not covered"))));
        }
        let value = &schema[keyword];
        if keyword == "$ref" {
            let target = value
                .as_str()
                .and_then(|reference| Some((reference, self.resolve(reference)?)));
            return Some(match target {
                Some((reference, target)) => self.make(target, &place.hop(reference)),
                None => Err(place.err(format!("`$ref` {value} leads nowhere in this schema"))),
            });
        }
        Some(match value.as_array().map(Vec::as_slice) {
            None | Some([]) => Err(place.err(format!("`{keyword}` must be an array that is not empty"))),
            Some([_, _, ..]) if keyword == "allOf" => Err(place.err("`allOf` of several schemas is not covered")),
            Some([first, ..]) => self.make(first, &place.hop(&format!("{keyword}/0"))),
        })
    }

    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    fn object(&mut self, schema: &Map<String, Value>, place: &Place<'_>) -> Made {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let most = bound(schema, "maxProperties", place)?.unwrap_or(usize::MAX);
        let mut spare = most
            .checked_sub(required.len())
            .ok_or_else(|| place.err("it requires more than `maxProperties`"))?;
        let mut object = Map::new();
        for (key, property) in properties {
            if !required.contains(&key.as_str()) {
                if place.depth >= ROOMY_DEPTH || spare == 0 || *property == Value::Bool(false) {
                    continue;
                }
                spare -= 1;
            }
            object.insert(
                key.clone(),
                self.make(property, &place.inside(&format!("properties/{key}"), key))?,
            );
        }
        let other = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
        for key in required {
            if !object.contains_key(key) {
                object.insert(
                    key.to_owned(),
                    self.make(other, &place.inside("additionalProperties", key))?,
                );
            }
        }
        Ok(Value::Object(object))
    }

    fn array(&mut self, schema: &Map<String, Value>, place: &Place<'_>) -> Made {
        let least = bound(schema, "minItems", place)?.unwrap_or(0);
        let most = bound(schema, "maxItems", place)?.unwrap_or(usize::MAX);
        if least > most {
            return Err(place.err("`minItems` is above `maxItems`"));
        }
        let roomy = if place.depth >= ROOMY_DEPTH {
            0
        } else {
            1 + text::pick(place.seed, 2)
        };
        let items = schema.get("items").unwrap_or(&Value::Bool(true));
        let mut count = if *items == Value::Bool(false) {
            least
        } else {
            least.max(roomy.min(most))
        };
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            if least > 1 {
                return Err(place.err("`uniqueItems` with `minItems` above 1 is not covered"));
            }
            count = count.min(1);
        }
        (0..count)
            .map(|n| self.make(items, &place.inside("items", &n.to_string())))
            .collect()
    }

    fn string(&mut self, schema: &Map<String, Value>, place: &Place<'_>) -> Made {
        let least = bound(schema, "minLength", place)?.unwrap_or(0);
        let most = bound(schema, "maxLength", place)?.unwrap_or(usize::MAX);
        if least > most {
            return Err(place.err("`minLength` is above `maxLength`"));
        }
        if let Some(example) = schema.get("format").and_then(Value::as_str).and_then(example) {
            return Ok(example.into());
        }
        self.text = self.text.saturating_add(least);
        if self.text > MOST_TEXT {
            return Err(place.err(format!("it asks for more than {MOST_TEXT} characters")));
        }
        let words = text::words(place.seed, least.max(12));
        let text = place
            .word
            .map_or_else(|| words.clone(), |word| format!("{word} {words}"));
        // A blank at the cut would invite trimming, which could break minLength.
        let mut text: String = text.chars().take(most).collect();
        if text.ends_with(' ') {
            text.pop();
            text.push('.');
        }
        Ok(Value::String(text))
    }
}

/// The type to make: the one named, or the first of several, or what the other keywords suggest.
fn kind(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            let suggest = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
            if suggest(&["properties", "required", "additionalProperties", "maxProperties"]) {
                Some("object")
            } else if suggest(&["items", "minItems", "maxItems", "uniqueItems"]) {
                Some("array")
            } else if suggest(&[
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "multipleOf",
            ]) {
                Some("number")
            } else {
                None
            }
        }
    }
}

/// A fixed text of a format; `None` for a format that is not known, which is then an annotation only.
fn example(format: &str) -> Option<&'static str> {
    Some(match format {
        "date-time" => "2024-05-17T09:30:00Z",
        "date" => "2024-05-17",
        "time" => "09:30:00Z",
        "duration" => "PT90M",
        "email" => "someone@example.com",
        "hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" => "https://example.com/simulated",
        "uuid" => "0d9a8f8e-2c1b-4e5f-9a7d-3b6c5d4e2f10",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
