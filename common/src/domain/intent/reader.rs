//! Strict reading. `serde_json` reads; this says what must be kept and what it leaves open.
//!
//! `serde_json` hands numbers over as floats and lets names stand twice. The exact text of a value can be had as a
//! [`RawValue`], but taking containers so and reading them again would scan a text once for each level. So only names,
//! strings and numbers are taken raw, and containers are walked. Which of the two comes next is the next byte of the text
//! that is not white space or punctuation, at the place where the last raw piece ended ([`Walk::next_byte`]). This is exact
//! as long as the text is JSON; where it is not, `serde_json` refuses it at that very place, whatever it was asked for.
//! So every byte is scanned a fixed number of times, and the recursion ends at the depth limit.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::quoted;
use super::{Json, JsonError, JsonProblem, Members, Number};

/// The bytes as text, without a byte order mark: with one, equal bodies would have unequal first bytes.
pub(super) fn text(bytes: &[u8]) -> Result<&str, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|error| JsonError {
        at: error.valid_up_to(),
        problem: JsonProblem::NotUtf8,
    })?;
    if text.starts_with('\u{feff}') {
        return Err(JsonError {
            at: 0,
            problem: JsonProblem::ByteOrderMark,
        });
    }
    Ok(text)
}

/// Reads the whole text as one value.
pub(super) fn value(text: &str, max_depth: usize) -> Result<Json, JsonError> {
    Walk::new(text, 0, max_depth).run(|walk, json| Value { walk, depth: 0 }.deserialize(json))
}

/// Reads the whole text as one object: for each member its name, the text of its value, and the value.
pub(super) fn fields(text: &str, max_depth: usize) -> Result<Vec<(String, &str, Json)>, JsonError> {
    let members = Walk::new(text, 0, max_depth).run(|walk, json| {
        // Past the opening bracket; without one, `serde_json` refuses the text.
        walk.next_byte();
        walk.cursor.set(walk.cursor.get() + 1);
        json.deserialize_map(RawObject { walk })
    })?;
    Ok(members
        .into_iter()
        .map(|(name, (raw, value))| (name, raw, value))
        .collect())
}

/// One walk through a text.
struct Walk<'t> {
    text: &'t str,
    /// Where the text begins in the body, for errors.
    base: usize,
    max_depth: usize,
    /// Where the last thing that was read ends.
    cursor: Cell<usize>,
    /// Our own refusal: serde's errors carry text alone.
    refusal: RefCell<Option<JsonError>>,
}

impl<'t> Walk<'t> {
    fn new(text: &'t str, base: usize, max_depth: usize) -> Self {
        Self {
            text,
            base,
            max_depth: max_depth.min(Json::DEEPEST),
            cursor: Cell::new(0),
            refusal: RefCell::new(None),
        }
    }

    fn run<T>(
        &self,
        read: impl FnOnce(&Self, &mut serde_json::Deserializer<serde_json::de::StrRead<'t>>) -> serde_json::Result<T>,
    ) -> Result<T, JsonError> {
        let mut json = serde_json::Deserializer::from_str(self.text);
        let result = read(self, &mut json).and_then(|value| json.end().map(|()| value));
        result.map_err(|error| match self.refusal.take() {
            Some(refusal) => refusal,
            None => JsonError {
                at: self.base + offset(self.text, &error),
                problem: JsonProblem::Syntax(reason(&error)),
            },
        })
    }

    /// Moves to the next value or name, and says what it begins with. `serde_json` has checked what is skipped.
    fn next_byte(&self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.cursor.get()..).unwrap_or_default();
        let skipped = rest.iter().position(|byte| !b" \t\n\r,:]}".contains(byte));
        self.cursor.set(self.cursor.get() + skipped.unwrap_or(rest.len()));
        skipped.map(|index| rest[index])
    }

    /// Takes the text of the next value or name, and where it begins.
    fn raw<'de: 't, D: Deserializer<'de>>(&self, deserializer: D) -> Result<(&'de str, usize), D::Error> {
        self.next_byte();
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let start = self.cursor.get();
        debug_assert_eq!(
            self.text.get(start..start + raw.len()),
            Some(raw),
            "the cursor stands where serde_json is"
        );
        self.cursor.set(start + raw.len());
        Ok((raw, start))
    }

    /// Ends the walk with our own words.
    fn refuse<E: Error>(&self, at: usize, problem: JsonProblem) -> E {
        self.refuse_with(JsonError {
            at: self.base + at,
            problem,
        })
    }

    fn refuse_with<E: Error>(&self, refusal: JsonError) -> E {
        self.refusal.replace(Some(refusal));
        E::custom("refused")
    }

    /// What the text of a string says.
    fn unescape<E: Error>(&self, raw: &str, start: usize) -> Result<String, E> {
        let text: String = serde_json::from_str(raw)
            .map_err(|error| self.refuse(start + offset(raw, &error), JsonProblem::Text(reason(&error))))?;
        if text.contains('\0') {
            return Err(self.refuse(start, JsonProblem::Nul));
        }
        Ok(text)
    }

    fn scalar<E: Error>(&self, raw: &str, start: usize) -> Result<Json, E> {
        match raw.as_bytes().first() {
            Some(b'n') => Ok(Json::Null),
            Some(b't') => Ok(Json::Bool(true)),
            Some(b'f') => Ok(Json::Bool(false)),
            Some(b'"') => self.unescape(raw, start).map(Json::String),
            Some(b'-' | b'0'..=b'9') => Number::within_limits(raw)
                .map(Json::Number)
                .map_err(|problem| self.refuse(start, problem)),
            Some(_) | None => Err(self.refuse(start, JsonProblem::Syntax("expected value".to_owned()))),
        }
    }

    /// Reads the members of an object, each value as `read` says.
    fn members<'de: 't, A: MapAccess<'de>, T>(
        &self,
        mut map: A,
        mut read: impl FnMut(&mut A) -> Result<T, A::Error>,
    ) -> Result<Vec<(String, T)>, A::Error> {
        let mut members = Vec::new();
        let mut starts = Vec::new();
        while let Some((name, start)) = map.next_key_seed(Name { walk: self })? {
            push_tight(&mut members, (name, read(&mut map)?));
            starts.push(start);
        }
        if let Some(index) = repeated(&members) {
            return Err(self.refuse(starts[index], JsonProblem::Repeated(quoted(&members[index].0))));
        }
        members.shrink_to_fit();
        Ok(members)
    }
}

/// Without this, the first push makes room for four, and a megabyte of `[[[[1]]]]` holds a hundred of memory.
fn push_tight<T>(items: &mut Vec<T>, item: T) {
    if items.is_empty() {
        items.reserve_exact(1);
    }
    items.push(item);
}

/// The first member whose name has stood before.
fn repeated<T>(members: &[(String, T)]) -> Option<usize> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    // Stable, so of equal names the later ones come later.
    order.sort_by_key(|&index| members[index].0.as_str());
    let equal = order.windows(2).filter(|pair| members[pair[0]].0 == members[pair[1]].0);
    equal.map(|pair| pair[1]).min()
}

/// Where `serde_json` stopped: it counts lines and bytes within the line, both from one.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1)
}

/// `serde_json`'s reason without its place, which we give in bytes of the whole body.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ")
        .map_or(text.as_str(), |(reason, _)| reason)
        .to_owned()
}

/// Reads one value.
struct Value<'w, 't> {
    walk: &'w Walk<'t>,
    /// How many containers it stands in.
    depth: usize,
}

impl<'de: 't, 't> DeserializeSeed<'de> for Value<'_, 't> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let Self { walk, depth } = self;
        let container = walk.next_byte().filter(|byte| matches!(byte, b'{' | b'['));
        let Some(bracket) = container else {
            let (raw, start) = walk.raw(deserializer)?;
            return walk.scalar(raw, start);
        };
        if depth == walk.max_depth {
            return Err(walk.refuse(walk.cursor.get(), JsonProblem::TooDeep(walk.max_depth)));
        }
        walk.cursor.set(walk.cursor.get() + 1);
        let within = Container { walk, depth: depth + 1 };
        if bracket == b'{' {
            deserializer.deserialize_map(within)
        } else {
            deserializer.deserialize_seq(within)
        }
    }
}

/// Reads what an array or an object holds.
struct Container<'w, 't> {
    walk: &'w Walk<'t>,
    /// How many containers its members stand in.
    depth: usize,
}

impl<'w, 't> Container<'w, 't> {
    const fn member(&self) -> Value<'w, 't> {
        Value {
            walk: self.walk,
            depth: self.depth,
        }
    }
}

impl<'de: 't, 't> Visitor<'de> for Container<'_, 't> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.member())? {
            push_tight(&mut items, item);
        }
        items.shrink_to_fit();
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Json, A::Error> {
        let members = self.walk.members(map, |map| map.next_value_seed(self.member()))?;
        Ok(Json::Object(Members::of_distinct(members)))
    }
}

/// Reads a name, and says where it begins.
struct Name<'w, 't> {
    walk: &'w Walk<'t>,
}

impl<'de: 't, 't> DeserializeSeed<'de> for Name<'_, 't> {
    type Value = (String, usize);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let (raw, start) = self.walk.raw(deserializer)?;
        Ok((self.walk.unescape(raw, start)?, start))
    }
}

/// Takes the text of a value as it is.
struct Raw<'w, 't> {
    walk: &'w Walk<'t>,
}

impl<'de: 't, 't> DeserializeSeed<'de> for Raw<'_, 't> {
    type Value = (&'de str, usize);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.walk.raw(deserializer)
    }
}

/// Reads the outermost object, keeping the text of each value: each is scanned once more, this once.
struct RawObject<'w, 't> {
    walk: &'w Walk<'t>,
}

impl<'de: 't, 't> Visitor<'de> for RawObject<'_, 't> {
    type Value = Vec<(String, (&'de str, Json))>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let Self { walk } = self;
        walk.members(map, |map| {
            let (raw, start) = map.next_value_seed(Raw { walk })?;
            let within = Walk::new(raw, walk.base + start, walk.max_depth);
            let value = within.run(|walk, json| Value { walk, depth: 1 }.deserialize(json));
            value
                .map(|value| (raw, value))
                .map_err(|refusal| walk.refuse_with(refusal))
        })
    }
}
