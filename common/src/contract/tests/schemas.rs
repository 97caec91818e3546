//! Closed objects, and what a schema may say.

use super::*;

fn problem(output: &str) -> String {
    parse(&file(OPEN, output, "x", "true", "{}")).unwrap_err().to_string()
}

/// An output with this schema for its property `v`.
fn with_v(schema: &str) -> Contract {
    let output = format!(
        r#"{{"type": "object", "properties": {{"text": {{"type": "string"}}, "v": {schema}}}, "required": ["text"],
            "$defs": {{"d": {{"type": "object", "properties": {{"a": {{}}}}}}}}}}"#
    );
    with_output(&output, "true")
}

fn takes(contract: &Contract, v: &str) -> bool {
    check(contract, "{}", &format!(r#"{{"text": "", "v": {v}}}"#)).is_ok()
}

#[test]
fn objects_are_closed_wherever_they_stand() {
    for (schema, good, bad) in [
        (r#"{"type": "object"}"#, "{}", r#"{"b": 1}"#),
        (r#"{"properties": {"a": {}}}"#, r#"{"a": 1}"#, r#"{"a": 1, "b": 1}"#),
        (
            r#"{"type": ["object", "null"], "properties": {"a": {}}}"#,
            "null",
            r#"{"b": 1}"#,
        ),
        (r##"{"$ref": "#/$defs/d"}"##, r#"{"a": 1}"#, r#"{"b": 1}"#),
        (
            r##"{"items": {"$ref": "#/$defs/d"}}"##,
            r#"[{"a": 1}]"#,
            r#"[{"b": 1}]"#,
        ),
        (r#"{"prefixItems": [{"type": "object"}]}"#, "[{}]", r#"[{"b": 1}]"#),
        (
            r#"{"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "string"}]}"#,
            r#"{"a": 1}"#,
            r#"{"b": 1}"#,
        ),
        (
            r#"{"oneOf": [{"type": "null"}, {"type": "object"}]}"#,
            "{}",
            r#"{"b": 1}"#,
        ),
        (
            r#"{"type": "object", "additionalProperties": {"type": "object"}}"#,
            r#"{"b": {}}"#,
            r#"{"b": {"c": 1}}"#,
        ),
        (
            r#"{"type": "object", "patternProperties": {"^x": {"type": "object"}}}"#,
            r#"{"xa": {}}"#,
            r#"{"xa": {"c": 1}}"#,
        ),
        (
            r#"{"type": "object", "patternProperties": {"^x": {}}}"#,
            r#"{"xa": 1}"#,
            r#"{"a": 1}"#,
        ),
    ] {
        let contract = with_v(schema);
        assert!(takes(&contract, good), "{schema} takes {good}");
        assert!(!takes(&contract, bad), "{schema} refuses {bad}");
    }
}

#[test]
fn objects_that_say_so_are_open() {
    for schema in [
        r#"{"type": "object", "additionalProperties": true}"#,
        r#"{"type": "object", "unevaluatedProperties": true}"#,
        "{}",
        "true",
        r#"{"enum": [{"b": 1}], "type": "object"}"#,
        r#"{"not": {"type": "object", "required": ["a"]}}"#,
        r#"{"type": "object", "allOf": [{"properties": {"a": {}}, "additionalProperties": true}], "additionalProperties": true}"#,
    ] {
        assert!(takes(&with_v(schema), r#"{"b": 1}"#), "{schema}");
    }
}

#[test]
fn where_schemas_share_an_object_the_author_says_what_is_closed() {
    let text = r#""text": {"type": "string"}"#;
    for schema in [
        format!(
            r#"{{"type": "object", "properties": {{{text}}}, "required": ["text"], "allOf": [{{"properties": {{"a": {{}}}}}}]}}"#
        ),
        format!(
            r#"{{"type": "object", "properties": {{{text}}}, "required": ["text"], "anyOf": [{{"required": ["text"]}}]}}"#
        ),
        format!(
            r#"{{"type": "object", "properties": {{{text}}}, "required": ["text"], "unevaluatedProperties": false, "then": {{"properties": {{"a": {{}}}}}}}}"#
        ),
    ] {
        let problem = problem(&schema);
        assert!(problem.contains("several schemas describe this object"), "{problem}");
    }
    let contract = with_output(
        &format!(
            r#"{{"type": "object", "properties": {{{text}}}, "required": ["text"], "unevaluatedProperties": false,
                "allOf": [{{"properties": {{"a": {{}}}}, "additionalProperties": true}}]}}"#
        ),
        "true",
    );
    assert_eq!(kind(check(&contract, "{}", r#"{"text": "", "a": 1}"#)), None);
}

#[test]
fn a_schema_that_would_be_read_otherwise_than_meant_is_refused() {
    for (schema, says) in [
        (r#"{"type": "string"}"#, "must be one of an object"),
        (
            r#"{"type": "object", "properties": {"text": {"type": "string", "maxLenght": 5}}, "required": ["text"]}"#,
            "maxLenght",
        ),
        (
            r#"{"type": "object", "properties": {"text": {"type": "sting"}}, "required": ["text"]}"#,
            "at /properties/text/type",
        ),
        (
            r#"{"type": "object", "properties": {"text": {"type": "string"}, "text": {}}}"#,
            "stands twice",
        ),
        (
            r#"{"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}"#,
            "2020-12",
        ),
        (
            r#"{"type": "object", "properties": {"text": {"type": "string"}, "r": {"$ref": "https://example.com/s.json"}}, "required": ["text"]}"#,
            "example.com",
        ),
        (
            r##"{"type": "object", "properties": {"text": {"type": "string"}, "r": {"$ref": "#/$defs/none"}}, "required": ["text"]}"##,
            "none",
        ),
        (
            r#"{"type": "object", "properties": {"text": {"type": "string"}, "r": {"pattern": "(?=a)b"}}, "required": ["text"]}"#,
            "pattern",
        ),
        (
            r#"{"type": "object", "properties": {"text": {"type": "string"}, "r": {"format": "postcode"}}, "required": ["text"]}"#,
            "postcode",
        ),
    ] {
        let problem = problem(schema);
        assert!(
            problem.contains("output.schema") && problem.contains(says),
            "{schema}: {problem}"
        );
    }
}

#[test]
fn the_word_of_the_certification_needs_a_free_text_in_every_answer() {
    for schema in [
        r#"{"type": "object", "properties": {"text": {"type": "string"}}}"#,
        r#"{"type": "object", "properties": {"text": {"type": "string", "enum": ["a"]}}, "required": ["text"]}"#,
        r#"{"type": "object", "properties": {"text": {"type": "integer"}}, "required": ["text"]}"#,
        r#"{"type": "object", "properties": {"other": {"type": "string"}}, "required": ["other"]}"#,
    ] {
        assert!(
            problem(schema).contains("small@1.toml, line 4, nonce_field"),
            "{schema}"
        );
    }
}

#[test]
fn an_input_is_checked_with_names_and_places() {
    let contract = triage();
    assert!(contract.check_input(&json(r#"{"message": ""}"#)).is_ok());
    let says = |input: &str| contract.check_input(&json(input)).unwrap_err().to_string();
    assert!(says(r#"{"message": 5}"#).contains("at /message: the value is not of type \"string\""));
    assert!(says(r#"{"message": "a", "b": 1}"#).contains("'b'"));
    assert!(says("{}").contains("\"message\" is a required property"));
    assert!(says("[]").contains("at the top: the value is not of type \"object\""));
}

#[test]
fn open_inputs_take_numbers_beyond_every_float() {
    let contracts = shipped();
    let contract = contracts.get(&"summarize@1".parse().unwrap()).unwrap();
    for number in [
        "1e400",
        "-1e9999",
        "1e-9999",
        "123456789012345678901234567890",
        "9007199254740993",
    ] {
        contract
            .check_input(&json(&format!(r#"{{"text": "", "options": {{"n": {number}}}}}"#)))
            .unwrap();
    }
    let options = |value: &str| contract.check_input(&json(&format!(r#"{{"text": "", "options": {value}}}"#)));
    assert!(options("5").is_err() && options("null").is_err() && options("{}").is_ok());
}
