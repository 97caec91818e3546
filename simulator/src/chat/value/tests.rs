//! Every value that is made is checked by a JSON Schema validator that knows nothing of how it was made.

use super::*;

fn made(schema: &Value, seed: u64, instruction: Option<&Instruction>) -> Value {
    let value = Schema::new(schema)
        .value(seed, instruction)
        .unwrap_or_else(|error| panic!("{error} in {schema}"));
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(schema)
        .unwrap();
    assert!(validator.is_valid(&value), "{value} under {schema}");
    value
}

fn refusal(schema: Value) -> String {
    Schema::new(&schema)
        .value(1, None)
        .expect_err(&format!("no value for {schema}"))
        .to_string()
}

#[test]
fn every_covered_schema_gets_valid_values() {
    let schemas = [
        json!({}),
        json!(true),
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 40, "maxLength": 41}),
        json!({"type": "string", "maxLength": 0}),
        json!({"type": "string", "maxLength": 6}),
        json!({"minLength": 300}),
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": 1, "maximum": 5}),
        json!({"type": "integer", "minimum": 3, "maximum": 3}),
        json!({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}),
        json!({"type": "integer", "exclusiveMinimum": 3.5, "maximum": 4.5}),
        json!({"type": "integer", "minimum": -7, "maximum": -2}),
        json!({"type": "integer", "minimum": 9, "exclusiveMinimum": 2, "maximum": 50, "exclusiveMaximum": 10}),
        json!({"type": "integer", "minimum": 1, "maximum": 20, "multipleOf": 7}),
        json!({"type": "integer", "minimum": -1e300, "maximum": 1e300}),
        json!({"type": "integer", "minimum": 1000}),
        json!({"type": "integer", "maximum": -1000}),
        json!({"type": "number"}),
        json!({"type": "number", "minimum": 0, "maximum": 1}),
        json!({"type": "number", "minimum": 0.001, "maximum": 0.002}),
        json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.01}),
        json!({"type": "number", "minimum": 2.5, "maximum": 2.5}),
        json!({"type": "number", "minimum": 1e9}),
        json!({"type": "number", "exclusiveMaximum": -1e9}),
        json!({"type": "number", "multipleOf": 5}),
        json!({"type": "boolean"}),
        json!({"type": "null"}),
        json!({"type": ["string", "null"]}),
        json!({"type": ["null", "string"]}),
        json!({"enum": ["billing", "technical", 3, null]}),
        json!({"const": {"a": [1]}}),
        json!({"type": "array", "items": {"type": "integer"}}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 4, "maxItems": 4}),
        json!({"type": "array", "maxItems": 0}),
        json!({"type": "array", "items": {"const": 1}, "uniqueItems": true}),
        json!({"type": "array", "items": false}),
        json!({"type": "object"}),
        json!({"type": "object", "required": ["free"]}),
        json!({"type": "object", "required": ["n"], "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}, "required": ["b"],
               "maxProperties": 1}),
        json!({"type": "object", "properties": {"a": false, "b": {"type": "null"}}}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "Note"}),
        json!({"oneOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"allOf": [{"$ref": "#/$defs/n"}]}, "n": {"type": "integer"}}}),
        json!({"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}, "required": ["v"],
               "additionalProperties": false}),
        json!({"type": "object", "properties": {"sub": {"type": "array", "items": {"$ref": "#"}}}, "required": ["sub"]}),
        json!({"type": "object", "additionalProperties": false, "required": ["category", "urgency", "summary"],
               "properties": {"category": {"enum": ["billing", "technical", "account", "other"]},
                              "urgency": {"type": "integer", "minimum": 1, "maximum": 5},
                              "summary": {"type": "string", "minLength": 1, "maxLength": 200}}}),
    ];
    for schema in &schemas {
        for seed in 0..200 {
            made(schema, seed, None);
        }
    }
}

#[test]
fn every_known_format_is_valid() {
    for format in [
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uuid",
        "novel",
    ] {
        made(&json!({"type": "string", "format": format}), 7, None);
    }
}

#[test]
fn other_seeds_give_other_values_and_the_same_seed_the_same() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let value = made(&schema, 1, None);
    assert_eq!(value, made(&schema, 1, None));
    assert_ne!(value, made(&schema, 2, None));
    assert_ne!(value["a"], value["b"]);
}

#[test]
fn every_branch_of_an_enum_is_reached() {
    let schema = json!({"enum": ["a", "b", "c", "d"]});
    let seen: std::collections::BTreeSet<_> = (0..100).map(|seed| made(&schema, seed, None).to_string()).collect();
    assert_eq!(seen.len(), 4);
}

#[test]
fn a_schema_that_is_not_covered_is_refused_with_its_place_and_keyword() {
    let cases = [
        (
            json!({"properties": {"a": {"type": "string", "pattern": "^x"}}}),
            ["#/properties/a:", "`pattern`"],
        ),
        (json!({"items": {"not": {}}}), ["#/items:", "`not`"]),
        (json!({"allOf": [{}, {}]}), ["#:", "`allOf`"]),
        (json!({"anyOf": [{}], "maxLength": 2}), ["#:", "`maxLength`"]),
        (json!({"$ref": "#/$defs/x"}), ["#:", "leads nowhere"]),
        (json!({"$ref": "https://example.com/s"}), ["#:", "leads nowhere"]),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "text"}}}),
            ["#/$defs/x:", "text"],
        ),
        (
            json!({"type": "integer", "minimum": 2, "maximum": 1}),
            ["#:", "no integer"],
        ),
        (
            json!({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}),
            ["#:", "no integer"],
        ),
        (
            json!({"type": "number", "exclusiveMinimum": 1, "maximum": 1}),
            ["#:", "no number"],
        ),
        (json!({"minLength": 2, "maxLength": 1}), ["#:", "`minLength`"]),
        (json!({"minItems": 2, "maxItems": 1}), ["#:", "`minItems`"]),
        (
            json!({"type": "array", "minItems": 1_000_000_000u64}),
            ["items:", "more than"],
        ),
        (json!({"minLength": 1_000_000_000u64}), ["#:", "more than"]),
        (json!({"enum": []}), ["#:", "`enum`"]),
        (json!(false), ["#:", "no value"]),
        (json!(3), ["#:", "a schema is"]),
        (json!({"$ref": "#"}), ["#:", "without end"]),
        (
            json!({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
            ["#", "without end"],
        ),
    ];
    for (schema, parts) in cases {
        let said = refusal(schema.clone());
        assert!(parts.iter().all(|part| said.contains(part)), "{said} for {schema}");
    }
}

#[test]
fn the_field_of_an_instruction_begins_with_its_word_and_stays_valid() {
    let asked = Instruction {
        field: "summary".into(),
        word: "zq7".into(),
    };
    for schema in [
        json!({"type": "object", "properties": {"summary": {"type": "string"}}}),
        json!({"type": "object", "properties": {"summary": {"type": "string", "maxLength": 5}}}),
        json!({"type": "object", "properties": {"summary": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
        json!({"$ref": "#/$defs/o", "$defs": {"s": {"type": "string", "minLength": 60},
               "o": {"type": "object", "properties": {"summary": {"$ref": "#/$defs/s"}}}}}),
        json!({"type": "object", "required": ["summary"]}),
    ] {
        let value = made(&schema, 5, Some(&asked));
        assert!(value["summary"].as_str().unwrap().starts_with("zq7"), "{value}");
    }
}

#[test]
fn an_instruction_touches_no_other_field() {
    let asked = Instruction {
        field: "summary".into(),
        word: "zq7".into(),
    };
    for schema in [
        json!({"type": "object", "properties": {"other": {"type": "string"}}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"in": {"type": "object", "properties": {"summary": {"type": "string"}}}}}),
        json!({"type": "object", "properties": {"summary": {"enum": ["a", "b"]}}}),
        json!({"type": "object", "properties": {"summary": {"type": "integer"}}}),
        json!({"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"summary": {"type": "string"}}}}),
    ] {
        assert!(!made(&schema, 5, Some(&asked)).to_string().contains("zq7"), "{schema}");
    }
}
