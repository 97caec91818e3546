//! What is refused, where, and with which words; and that nothing hostile is dear.

use super::super::{Fields, Json, JsonError, JsonProblem};
use super::DEPTH;

fn refused(text: &[u8]) -> JsonError {
    match Json::parse(text, DEPTH) {
        Ok(value) => panic!("{} was read as {value:?}", String::from_utf8_lossy(text)),
        Err(error) => error,
    }
}

#[test]
fn a_name_may_stand_once_in_an_object_however_it_is_written() {
    for (text, at) in [
        (r#"{"a":1,"a":2}"#, 7),
        (r#"{"a":1,"\u0061":1}"#, 7),
        (r#"{"a":[{"b":{"c":1,"c":1}}]}"#, 18),
        (r#"{"x":{}, "a":{"z":[]}, "y":[1], "a":null}"#, 32),
        (r#"{"":1,"":1}"#, 6),
    ] {
        let error = refused(text.as_bytes());
        assert!(matches!(error.problem, JsonProblem::Repeated(_)), "{text}: {error}");
        assert_eq!(error.at, at, "{text}");
    }
    assert_eq!(
        refused(br#"{"a":1,"a":2}"#).to_string(),
        r#"at byte 7: the name "a" stands twice in one object, and readers differ in which one they take: keep one"#
    );
    // The same name in different objects, and names that differ only in case or normal form, are fine.
    for text in [
        r#"{"a":{"a":1},"b":{"a":1}}"#,
        r#"{"a":1,"A":1}"#,
        "{\"é\":1,\"e\u{301}\":1}",
    ] {
        assert!(Json::parse(text.as_bytes(), DEPTH).is_ok(), "{text}");
    }
}

#[test]
fn half_a_surrogate_pair_and_control_characters_are_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud83dged""#,
        r#""\ud83d\u0041""#,
        r#""\udc00\ud800""#,
        r#"{"\udc00":1}"#,
        r#"[{"a":"x\ud800"}]"#,
    ] {
        assert!(
            matches!(refused(text.as_bytes()).problem, JsonProblem::Text(_)),
            "{text}"
        );
    }
    for text in ["\"a\nb\"", "\"a\u{1}b\"", "\"a\0b\"", "{\"a\tb\":1}"] {
        assert!(
            matches!(refused(text.as_bytes()).problem, JsonProblem::Syntax(_)),
            "{text:?}"
        );
    }
    assert_eq!(Json::parse(br#""\ud83d\ude00""#, 1), Ok(Json::String("😀".to_owned())));
}

#[test]
fn a_nul_is_refused_in_strings_and_names() {
    for text in [r#""a\u0000""#, r#"{"a\u0000b":1}"#, r#"[["\u0000"]]"#] {
        assert_eq!(refused(text.as_bytes()).problem, JsonProblem::Nul, "{text}");
    }
    // A backslash before it makes it six plain characters.
    assert_eq!(Json::parse(br#""\\u0000""#, 1), Ok(Json::String("\\u0000".to_owned())));
}

#[test]
fn what_the_grammar_does_not_have_is_refused_at_its_place() {
    for (text, at) in [
        ("", 0),
        ("  ", 1),
        ("hello", 0),
        (r#"{"a":NaN}"#, 5),
        (r#"{"a":Infinity}"#, 5),
        (r#"{"a":-Infinity}"#, 6),
        (r#"{"a":1,}"#, 7),
        ("[1,]", 3),
        ("[,1]", 1),
        ("[,[1]]", 1),
        ("[1,,[2]]", 3),
        (r#"{"a"::{}}"#, 5),
        (r#"{"a":,[]}"#, 5),
        (r#"{,"a":1}"#, 1),
        (r#"{"a":]1}"#, 5),
        (r#"{"a":1/**/}"#, 6),
        ("[1 // one\n]", 3),
        ("{'a':1}", 1),
        ("{a:1}", 1),
        ("[01]", 2),
        ("[.5]", 1),
        ("[1.]", 3),
        ("[+1]", 1),
        ("[1] 2", 4),
        ("[1]]", 3),
        ("{} {}", 3),
        ("[\n1,\n2 3]", 7),
        (r#""\x""#, 2),
        ("\u{a0}1", 0),
        ("[1\u{2028}]", 2),
    ] {
        let error = refused(text.as_bytes());
        assert!(matches!(error.problem, JsonProblem::Syntax(_)), "{text}: {error}");
        // serde_json counts some places one byte further than others.
        assert!(error.at.abs_diff(at) <= 1, "{text}: at {}, not {at}: {error}", error.at);
    }
}

#[test]
fn a_byte_order_mark_and_bytes_that_are_not_utf8_are_refused() {
    assert_eq!(refused(b"\xef\xbb\xbf{}").problem, JsonProblem::ByteOrderMark);
    assert_eq!(refused(b"\xff\xfe{\0}\0").problem, JsonProblem::NotUtf8);
    for text in [
        &b"\"ch\xff\""[..],
        b"\"\xed\xa0\x80\"",
        b"\"\xc0\x80\"",
        b"{\"a\":\"\xf0\x9f\"}",
    ] {
        assert_eq!(refused(text).problem, JsonProblem::NotUtf8, "{text:?}");
    }
    assert_eq!(refused(b"\"ch\xff\"").at, 3);
}

#[test]
fn the_place_of_a_problem_counts_from_the_beginning_of_the_body() {
    let text = br#" {"contract": "x", "input": {"a": [1, "\ud800"]}}"#;
    let at = |error: JsonError| error.at;
    let whole = at(refused(text));
    match Fields::parse(text, DEPTH) {
        Err(super::super::BodyError::Json(error)) => assert_eq!(error.at, whole),
        other => panic!("{other:?}"),
    }
    assert!((38..=45).contains(&whole), "{whole}");
}

#[test]
fn nesting_is_allowed_up_to_the_limit_and_refused_beyond() {
    let arrays = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    for nested in [&arrays as &dyn Fn(usize) -> String, &objects] {
        assert!(Json::parse(nested(DEPTH).as_bytes(), DEPTH).is_ok());
        assert_eq!(
            refused(nested(DEPTH + 1).as_bytes()).problem,
            JsonProblem::TooDeep(DEPTH)
        );
        assert_eq!(refused(nested(5_000).as_bytes()).problem, JsonProblem::TooDeep(DEPTH));
        // Whatever limit is asked for, the stack is safe; and the deepest that can be asked for is read.
        assert!(Json::parse(nested(Json::DEEPEST).as_bytes(), usize::MAX).is_ok());
        let error = Json::parse(nested(200_000).as_bytes(), usize::MAX).expect_err("too deep");
        assert_eq!(error.problem, JsonProblem::TooDeep(Json::DEEPEST));
    }
    assert!(Json::parse(b"1", 0).is_ok());
    assert_eq!(
        Json::parse(b"[]", 0).expect_err("too deep").problem,
        JsonProblem::TooDeep(0)
    );
    // An end without a beginning, and a beginning without an end.
    assert!(Json::parse("]".repeat(100_000).as_bytes(), DEPTH).is_err());
    assert!(Json::parse("[1,".repeat(100_000).as_bytes(), DEPTH).is_err());
}

#[test]
fn a_field_s_depth_counts_the_body_s_own_object() {
    let body = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert!(Fields::parse(body(DEPTH - 1).as_bytes(), DEPTH).is_ok());
    assert!(Fields::parse(body(DEPTH).as_bytes(), DEPTH).is_err());
    assert!(Fields::parse(body(5_000).as_bytes(), DEPTH).is_err());
}

#[test]
fn every_byte_of_a_large_hostile_text_is_looked_at_a_few_times_only() {
    // Each of these would take minutes if reading, or finding repeated names, were quadratic in a debug build.
    let size = 1 << 20;
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(DEPTH - 1), "]".repeat(DEPTH - 1));
    let names: Vec<String> = (0..size / 14).map(|n| format!(r#""{n:08x}":1"#)).collect();
    for text in [
        deep(&format!("[{}1]", "1,".repeat(size / 2))),
        deep(&format!("\"{}\"", "\\n".repeat(size / 2))),
        format!("[{}{{}}]", "{},".repeat(size / 3)),
        format!("{{{}}}", names.join(",")),
        format!("{}1", " ".repeat(size)),
    ] {
        assert!(Json::parse(text.as_bytes(), DEPTH).is_ok(), "{}", &text[..40]);
    }
    for text in [
        "[".repeat(size),
        "{\"a\":".repeat(size / 5),
        "\"".repeat(size),
        format!("[{}", "\n1,".repeat(size / 3)),
        format!("{{{}}}", r#""a":1,"#.repeat(size / 6)),
        "9".repeat(size),
    ] {
        assert!(Json::parse(text.as_bytes(), DEPTH).is_err(), "{}", &text[..40]);
    }
}

#[test]
fn a_value_for_other_libraries_keeps_order_and_refuses_what_no_float_holds() {
    let value = |text: &str| Json::parse(text.as_bytes(), DEPTH).expect("JSON").to_value();
    let text = r#"{"b":[1,-2,1.5,18446744073709551615],"a":{"z":null,"y":true,"x":"é"}}"#;
    assert_eq!(value(text).expect("a value").to_string(), text);
    assert!(value("[1e308]").is_ok());
    assert!(value("[1e400]").expect_err("too large").to_string().contains("1e400"));
}
