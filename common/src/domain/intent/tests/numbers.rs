//! Numbers are compared by their exact value and kept as they were written.

use super::super::{Json, JsonProblem, Number};

fn number(text: &str) -> Number {
    match Json::parse(text.as_bytes(), 1) {
        Ok(Json::Number(number)) => number,
        other => panic!("{text}: {other:?}"),
    }
}

fn problem(text: &str) -> JsonProblem {
    Json::parse(text.as_bytes(), 1).expect_err(text).problem
}

#[test]
fn the_canonical_form_of_a_number_is_its_significant_digits_and_an_exponent() {
    for (written, canonical) in [
        ("0", "0"),
        ("-0", "0"),
        ("0.000", "0"),
        ("-0.0e-7", "0"),
        ("0E10000", "0"),
        ("1", "1"),
        ("1.0", "1"),
        ("1e0", "1"),
        ("10e-1", "1"),
        ("0.1e+1", "1"),
        ("1e0000000000000000000000000001", "1e1"),
        ("100", "1e2"),
        ("-1.250", "-125e-2"),
        ("0.5", "5e-1"),
        ("5E-1", "5e-1"),
        ("0.00123e5", "123"),
        ("9007199254740993", "9007199254740993"),
        ("0.10000000000000001", "10000000000000001e-17"),
        ("1e10000", "1e10000"),
        ("10e10000", "1e10001"),
        ("0.1e-10000", "1e-10001"),
    ] {
        assert_eq!(number(written).to_string(), canonical, "{written}");
        assert_eq!(number(written).as_written(), written);
        assert_eq!(number(written), number(canonical_within_limits(canonical)), "{written}");
    }
}

/// Two of the canonical forms above have exponents that may not be written.
fn canonical_within_limits(canonical: &str) -> &str {
    match canonical {
        "1e10001" => "100e9999",
        "1e-10001" => "0.01e-9999",
        other => other,
    }
}

#[test]
fn numbers_that_a_float_would_confuse_are_different() {
    for (one, other) in [
        ("9007199254740992", "9007199254740993"),
        ("0.1", "0.10000000000000001"),
        ("1e400", "1e401"),
        ("1e-400", "0"),
        ("1", "-1"),
        ("18446744073709551615", "18446744073709551616"),
        ("12", "1.2"),
        ("12", "120"),
    ] {
        assert_ne!(number(one), number(other), "{one} and {other}");
        assert_ne!(number(one).to_string(), number(other).to_string(), "{one} and {other}");
    }
}

#[test]
fn whole_numbers_are_taken_in_every_spelling_and_nothing_else_is() {
    for (written, value) in [
        ("2", Some(2)),
        ("2.0", Some(2)),
        ("20e-1", Some(2)),
        ("0.02E2", Some(2)),
        ("-0.0", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("1e19", Some(10_000_000_000_000_000_000)),
        ("18446744073709551616", None),
        ("1e20", None),
        ("1e10000", None),
        ("2.5", None),
        ("1e-10000", None),
        ("-1", None),
    ] {
        assert_eq!(number(written).as_u64(), value, "{written}");
    }
}

#[test]
fn the_limits_are_a_thousand_digits_and_an_exponent_of_ten_thousand() {
    let digits = |count: usize| "9".repeat(count);
    number(&digits(1_000));
    number(&format!("-0.{}e-10000", digits(999)));
    assert_eq!(problem(&digits(1_001)), JsonProblem::TooManyDigits);
    assert_eq!(problem(&format!("1.{}", "0".repeat(1_000))), JsonProblem::TooManyDigits);
    assert_eq!(problem(&digits(100_000)), JsonProblem::TooManyDigits);
    number("1E+10000");
    for beyond in [
        "1e10001",
        "1e-10001",
        "0e10001",
        "1e999999999",
        "1e-99999999999999999999999999",
    ] {
        assert_eq!(problem(beyond), JsonProblem::ExponentTooLarge, "{beyond}");
    }
}
