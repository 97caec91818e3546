//! Properties over random values, spellings and bytes.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde::de::IgnoredAny;

use super::super::canonical::Framed;
use super::super::{Json, JsonProblem, Members, Number};
use super::{DEPTH, body, digest};

fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        any::<char>(),
        prop::sample::select(vec!['"', '\\', '/', '\n', '\u{1}', 'a', 'é', '😀'])
    ];
    vec(character.prop_filter("a NUL is refused", |c| *c != '\0'), 0..8).prop_map(String::from_iter)
}

fn number() -> impl Strategy<Value = Json> {
    "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?"
        .prop_map(|text| Json::Number(Number::within_limits(&text).expect("within the limits")))
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number(),
        text().prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Json::Array),
            btree_map(text(), inner, 0..5)
                .prop_map(|members| Json::Object(Members::of_distinct(members.into_iter().collect()))),
        ]
    })
}

/// Another spelling of the same value.
fn spell(value: &Json, random: &mut StdRng) -> String {
    let bare = match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(number) => spell_number(number, random),
        Json::String(text) => spell_text(text, random),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| spell(item, random)).collect();
            format!("[{}{}]", space(random), items.join(","))
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.shuffle(random);
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| {
                    let name = spell_text(name, random);
                    format!("{}{name}{}:{}", space(random), space(random), spell(value, random))
                })
                .collect();
            format!("{{{}{}}}", space(random), members.join(","))
        }
    };
    format!("{}{bare}{}", space(random), space(random))
}

fn space(random: &mut StdRng) -> &'static str {
    ["", "", "", " ", "\n", "\t\r\n "][random.random_range(0..6)]
}

fn spell_text(text: &str, random: &mut StdRng) -> String {
    let mut out = "\"".to_owned();
    for character in text.chars() {
        let must_escape = character < ' ' || character == '"' || character == '\\';
        let short = match character {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\n' => Some("\\n"),
            '\t' => Some("\\t"),
            _ => None,
        };
        match (random.random_range(0..3), short) {
            (0, Some(short)) => out.push_str(short),
            (1, _) if !must_escape => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let upper = random.random_bool(0.5);
                    out.push_str(&if upper {
                        format!("\\u{unit:04X}")
                    } else {
                        format!("\\u{unit:04x}")
                    });
                }
            }
        }
    }
    out.push('"');
    out
}

fn spell_number(number: &Number, random: &mut StdRng) -> String {
    let canonical = number.to_string();
    if canonical == "0" {
        return ["0", "-0", "0.0", "0e5", "-0.00E-3"][random.random_range(0..5)].to_owned();
    }
    let (mantissa, exponent) = canonical.split_once('e').unwrap_or((&canonical, "0"));
    let (sign, digits) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |digits| ("-", digits));
    let zeros = random.random_range(0..4);
    let digits = format!("{digits}{}", "0".repeat(zeros));
    let point = random.random_range(0..=digits.len());
    let (whole, fraction) = digits.split_at(point);
    let exponent = exponent.parse::<i64>().expect("an exponent") - zeros as i64 + fraction.len() as i64;
    let whole = if whole.is_empty() { "0" } else { whole };
    let dot = if fraction.is_empty() { "" } else { "." };
    let tail = match (exponent, random.random_range(0..3)) {
        (0, 0 | 1) => String::new(),
        (_, 0) => format!("e{exponent}"),
        (_, 1) => format!("E{exponent:+}"),
        (..) => format!("e{exponent:+06}"),
    };
    format!("{sign}{whole}{dot}{fraction}{tail}")
}

/// The value with one thing changed, at a random place.
fn change(value: &Json, random: &mut StdRng) -> Json {
    let here = random.random_bool(0.4);
    match value {
        Json::Null => Json::Bool(false),
        Json::Bool(value) => Json::Bool(!value),
        Json::Number(number) if random.random_bool(0.3) => Json::String(number.as_written().to_owned()),
        Json::Number(number) => Json::Number(changed_number(number, random)),
        Json::String(text) if text.is_empty() => Json::Null,
        Json::String(text) => {
            let mut characters: Vec<char> = text.chars().collect();
            let index = random.random_range(0..characters.len());
            characters[index] = if characters[index] == 'x' { 'y' } else { 'x' };
            Json::String(characters.into_iter().collect())
        }
        Json::Array(items) if here || items.is_empty() => match items.as_slice() {
            [first, second, rest @ ..] if first.canonical() != second.canonical() && random.random_bool(0.6) => {
                Json::Array([second, first].into_iter().chain(rest).cloned().collect())
            }
            [] if random.random_bool(0.5) => Json::Object(Members::default()),
            items => Json::Array(items.iter().cloned().chain([Json::Null]).collect()),
        },
        Json::Array(items) => {
            let mut items = items.clone();
            let index = random.random_range(0..items.len());
            items[index] = change(&items[index], random);
            Json::Array(items)
        }
        Json::Object(members) => {
            let mut members: Vec<(String, Json)> = members
                .iter()
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect();
            let fresh = "x".repeat(1 + members.iter().map(|(name, _)| name.len()).max().unwrap_or(0));
            if members.is_empty() || (here && random.random_bool(0.5)) {
                members.push((fresh, Json::Null));
            } else {
                let index = random.random_range(0..members.len());
                if here {
                    members[index].0 = fresh;
                } else {
                    members[index].1 = change(&members[index].1, random);
                }
            }
            Json::Object(Members::of_distinct(members))
        }
    }
}

/// One more in the last place, or the other sign: never the same value.
fn changed_number(number: &Number, random: &mut StdRng) -> Number {
    let canonical = number.to_string();
    let text = match canonical.strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None if canonical != "0" && random.random_bool(0.3) => format!("-{canonical}"),
        None => {
            let (digits, exponent) = canonical.split_once('e').unwrap_or((&canonical, "0"));
            format!("{digits}.00000000000000001e{exponent}")
        }
    };
    Number::within_limits(&text).expect("within the limits")
}

/// A few bytes taken out, put in or replaced.
fn damage(text: &str, random: &mut StdRng) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let pool = b"[]{},:\"\\u0019.eE+-tfn /*\0\xff\xef";
    for _ in 0..random.random_range(1..4) {
        let index = random.random_range(0..=bytes.len());
        let byte = pool[random.random_range(0..pool.len())];
        match random.random_range(0..3) {
            0 => bytes.insert(index, byte),
            1 if index < bytes.len() => bytes[index] = byte,
            _ if index < bytes.len() => drop(bytes.remove(index)),
            _ => bytes.push(byte),
        }
    }
    bytes
}

/// The grammar is serde_json's: what it refuses is refused, and what it takes is taken or refused by a rule of ours.
fn agrees_with_serde_json(bytes: &[u8]) -> Result<(), TestCaseError> {
    let grammar = serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    match Json::parse(bytes, DEPTH) {
        Ok(value) => {
            prop_assert!(grammar, "taken, though it is not JSON");
            let again = Json::parse(value.canonical().as_bytes(), DEPTH);
            prop_assert_eq!(again.as_ref(), Ok(&value), "the canonical text has the same value");
        }
        Err(error) if matches!(error.problem, JsonProblem::Syntax(_)) => {
            prop_assert!(!grammar, "refused as no JSON, though it is: {error}");
            prop_assert!(error.at <= bytes.len(), "{error}");
        }
        Err(error) => prop_assert!(error.at < bytes.len(), "{error}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn another_spelling_of_a_value_is_the_same_intent(value in json(), seed: u64) {
        let random = &mut StdRng::seed_from_u64(seed);
        let (one, other) = (spell(&value, random), spell(&value, random));
        prop_assert_eq!(digest(&body(&one)), digest(&body(&other)));
        prop_assert_eq!(Json::parse(one.as_bytes(), DEPTH), Ok(value));
    }

    #[test]
    fn a_changed_value_is_another_intent(value in json(), seed: u64) {
        let random = &mut StdRng::seed_from_u64(seed);
        let changed = change(&value, random);
        let (one, other) = (spell(&value, random), spell(&changed, random));
        prop_assert_ne!(digest(&body(&one)), digest(&body(&other)), "{} and {}", one, other);
        prop_assert_ne!(value, changed);
    }

    #[test]
    fn damaged_json_is_read_as_serde_json_reads_it(value in json(), seed: u64) {
        let random = &mut StdRng::seed_from_u64(seed);
        let whole = spell(&value, random);
        agrees_with_serde_json(&damage(&whole, random))?;
        let cut = random.random_range(0..=whole.len());
        agrees_with_serde_json(&whole.as_bytes()[..cut])?;
    }

    #[test]
    fn a_damaged_body_never_panics_and_never_becomes_ambiguous(value in json(), seed: u64) {
        let random = &mut StdRng::seed_from_u64(seed);
        let bytes = damage(&body(&spell(&value, random)), random);
        if let Ok(intent) = super::Intent::parse(&bytes, DEPTH) {
            let kept = Json::parse(intent.input.as_str().as_bytes(), DEPTH);
            prop_assert_eq!(kept.as_ref(), Ok(intent.input.value()), "the text that is kept says what was digested");
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>, likely in "[\\[\\]{}\",:0-9eE.+\\-tfnul \\\\]{0,40}") {
        agrees_with_serde_json(&bytes)?;
        agrees_with_serde_json(likely.as_bytes())?;
    }

    #[test]
    fn text_that_moves_over_a_field_s_border_makes_another_digest(text in "[a-c]{6}", one in [0usize..3, 0..4], other in [0usize..3, 0..4]) {
        let split = |[first, second]: [usize; 2]| {
            let (name, rest) = text.split_at(first);
            let (value, next) = rest.split_at(second);
            Framed::new("test").field(name, value).field(next, "").finish()
        };
        prop_assert_eq!(split(one) == split(other), one == other);
    }

    #[test]
    fn text_that_moves_between_fields_makes_another_intent(digits in "[1-9]{4,8}", one in 1usize..4, other in 1usize..4) {
        let split = |at: usize| {
            let (version, provider) = digits.split_at(at);
            digest(&format!(r#"{{"contract":"c@{version}","provider":"{provider}","input":{{}}}}"#))
        };
        prop_assert_eq!(split(one) == split(other), one == other);
    }

    #[test]
    fn text_that_moves_between_input_and_policy_makes_another_intent(value in json(), name in "[a-z]{1,8}") {
        let within = format!(r#"{{"input":{},"fallback":["{name}"]}}"#, value.canonical());
        let plain = digest(&format!(
            r#"{{"contract":"c@1","provider":"primary","input":{},"policy":{{"fallback":["{name}"]}}}}"#,
            value.canonical()
        ));
        prop_assume!(name != "primary");
        prop_assert_ne!(plain, digest(&format!(r#"{{"contract":"c@1","provider":"primary","input":{within}}}"#)));
    }
}
