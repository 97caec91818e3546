//! Small bodies: every field is taken or refused.

use super::super::{BodyError, Fields};
use super::DEPTH;

fn fields(body: &str) -> Fields {
    Fields::parse(body.as_bytes(), DEPTH).expect(body)
}

#[test]
fn fields_are_taken_with_their_types_and_texts() {
    let mut fields = fields(r#" {"a": "x\n", "b":true, "c": [ 1.0 , null ] , "d":null, "e":3e0} "#);
    assert_eq!(fields.take_str("a"), Ok(Some("x\n".to_owned())));
    assert_eq!(fields.take_bool("b"), Ok(Some(true)));
    assert_eq!(fields.take_raw("c").expect("c").text, "[ 1.0 , null ]");
    assert_eq!(fields.take_raw("d").expect("null is a value").text, "null");
    assert_eq!(fields.take_integer("e", 1, 3), Ok(Some(3)));
    assert_eq!(fields.take_raw("f"), None);
    assert_eq!(fields.take_str("f"), Ok(None));
    assert_eq!(fields.finish(), Ok(()));
}

#[test]
fn a_field_of_another_type_is_named_with_what_it_is() {
    for (body, sentence) in [
        (r#"{"a":null}"#, "a must be true or false; it is null"),
        (r#"{"a":"true"}"#, "a must be true or false; it is a string"),
        (r#"{"a":1}"#, "a must be true or false; it is a number"),
    ] {
        let error = fields(body).take_bool("a").expect_err(body);
        assert_eq!(error.to_string(), sentence);
    }
    let error = fields(r#"{"provider":5}"#).take_str("provider").expect_err("a number");
    assert_eq!(error.to_string(), "provider must be a string; it is a number");
}

#[test]
fn a_field_that_nobody_took_is_refused_by_name() {
    let mut fields = fields(r#"{"providr":"backup"}"#);
    assert_eq!(fields.take_str("provider"), Ok(None));
    assert_eq!(fields.take_bool("hedge"), Ok(None));
    assert_eq!(
        fields.finish().expect_err("unknown").to_string(),
        r#""providr" is not a field of this request: leave it out, or correct its name; known here: provider, hedge"#
    );
}

#[test]
fn an_unknown_name_cannot_forge_a_log_line_or_fill_it() {
    let body = format!(r#"{{"a\nb{}":1}}"#, "x".repeat(10_000));
    let error = fields(&body).finish().expect_err("unknown").to_string();
    assert!(error.starts_with(r#""a\nbxxx"#) && error.len() < 200, "{error}");
}

#[test]
fn an_empty_body_is_an_object_only_where_the_call_allows_it() {
    for body in ["", " \n\t "] {
        assert_eq!(
            Fields::parse(body.as_bytes(), DEPTH).expect_err("empty"),
            BodyError::Empty
        );
        assert_eq!(
            Fields::parse_optional(body.as_bytes(), DEPTH).expect("none").finish(),
            Ok(())
        );
    }
    assert!(Fields::parse_optional(b"{}", DEPTH).is_ok());
    assert!(Fields::parse_optional(b"{", DEPTH).is_err());
    assert!(Fields::parse_optional(b"\xef\xbb\xbf", DEPTH).is_err());
}

#[test]
fn a_body_that_is_no_object_is_refused_as_what_it_is() {
    for (body, what) in [
        ("[]", "an array"),
        ("null", "null"),
        (" 1", "a number"),
        (r#""{}""#, "a string"),
        ("true", "a boolean"),
    ] {
        let error = Fields::parse(body.as_bytes(), DEPTH).expect_err(body);
        assert_eq!(error, BodyError::NotAnObject(what));
        assert_eq!(Fields::parse_optional(body.as_bytes(), DEPTH).expect_err(body), error);
    }
    for body in ["hello", "{", "{]", "{} x", "[", "{\"a\":1"] {
        let error = Fields::parse(body.as_bytes(), DEPTH).expect_err(body);
        assert!(matches!(error, BodyError::Json(_)), "{body}: {error}");
    }
}
