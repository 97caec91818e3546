//! Each way in which an answer breaks a contract, and what is fine.

use proptest::prelude::*;

use super::*;
use ViolationKind::{NotStrictJson, Rule, Schema};

const INPUT: &str = r#"{"message": "I was charged twice for one order."}"#;

fn triaged(answer: &str) -> Result<CheckedAnswer, Violation> {
    check(&triage(), INPUT, answer)
}

#[test]
fn a_good_answer_is_kept_as_the_bytes_that_came() {
    for answer in [
        ANSWER.to_owned(),
        format!("\n {ANSWER}\r\n\t"),
        r#"{"category":"billing","urgency":4,"summary":"late"}"#.to_owned(),
        ANSWER.replace('4', "4.0"),
        ANSWER.replace("Charged", "caf\\u00e9 \\ud83d\\ude4f"),
    ] {
        let checked = triaged(&answer).unwrap();
        assert_eq!(checked.raw(), answer.as_bytes());
        assert_eq!(checked.into_raw(), answer.as_bytes());
    }
}

#[test]
fn an_answer_that_is_not_strict_json_is_never_repaired() {
    let cases = [
        format!("```json\n{ANSWER}\n```"),
        format!("Here you are: {ANSWER}"),
        format!("{ANSWER} Hope that helps!"),
        format!("{ANSWER}{ANSWER}"),
        format!("\u{feff}{ANSWER}"),
        ANSWER.replace('}', r#","urgency":4}"#),
        ANSWER.replace('}', r#","\u0075rgency":4}"#),
        ANSWER.replace("Charged", "\\u0000"),
        ANSWER.replace("Charged", "\0"),
        ANSWER.replace("Charged", "\\ud800"),
        ANSWER.replace('4', "NaN"),
        ANSWER.replace('4', "Infinity"),
        ANSWER.replace('}', ""),
        ANSWER.replace('}', ",}"),
        ANSWER.replace('"', "'"),
        String::new(),
        "[".repeat(100_000),
    ];
    for answer in cases {
        assert_eq!(kind(triaged(&answer)), Some(NotStrictJson), "{answer:.60}");
    }
    let not_utf8 = Bytes::from_static(b"{\"category\":\"billing\",\"urgency\":4,\"summary\":\"\xff\"}");
    assert_eq!(kind(triage().check_answer(&json(INPUT), not_utf8)), Some(NotStrictJson));
}

#[test]
fn an_answer_of_another_shape_is_never_converted() {
    let cases = [
        serde_json::Value::from(ANSWER).to_string(),
        format!("[{ANSWER}]"),
        ANSWER.replace('4', "\"4\""),
        ANSWER.replace('4', "4.5"),
        ANSWER.replace('4', "6"),
        ANSWER.replace('4', "1e400"),
        ANSWER.replace('4', "-1e400"),
        ANSWER.replace('4', "null"),
        ANSWER.replace("billing", "Billing"),
        ANSWER.replace("Charged twice.", ""),
        ANSWER.replace('}', r#", "confidence": 0.9}"#),
        ANSWER.replace("\"urgency\": 4, ", ""),
        "null".into(),
        "{}".into(),
    ];
    for answer in cases {
        assert_eq!(kind(triaged(&answer)), Some(Schema), "{answer}");
    }
}

#[test]
fn a_rule_that_does_not_hold_is_named_with_its_message() {
    let violation = triaged(&ANSWER.replace("Charged twice.", " \\n\\t ")).unwrap_err();
    assert_eq!(violation.kind, Rule);
    assert_eq!(
        violation.to_string(),
        "the rule summary-says-something does not hold: the summary is only white space"
    );
}

#[test]
fn rules_see_input_and_output_and_need_no_suffix_for_whole_numbers() {
    let output = r#"{"type": "object", "properties": {"text": {"type": "string"}, "n": {}}, "required": ["text"]}"#;
    let contract = with_output(
        output,
        "output.n == input.n && output.n > 0 && output.n < 18446744073709551615u",
    );
    assert_eq!(kind(check(&contract, r#"{"n": 5}"#, r#"{"text": "", "n": 5}"#)), None);
    assert_eq!(
        kind(check(&contract, r#"{"n": 5}"#, r#"{"text": "", "n": 6}"#)),
        Some(Rule)
    );
    assert_eq!(
        kind(check(&contract, r#"{"n": 2.5}"#, r#"{"text": "", "n": 2.5}"#)),
        None
    );
}

#[test]
fn a_rule_that_can_not_be_evaluated_is_broken() {
    let output = r#"{"type": "object", "properties": {"text": {"type": "string"}, "n": {}}, "required": ["text"]}"#;
    for (rule, answer) in [
        ("output.n == 1", r#"{"text": ""}"#),
        ("1 / output.n == 1", r#"{"text": "", "n": 0}"#),
        (
            "output.n + 9223372036854775807 > 0",
            r#"{"text": "", "n": 9223372036854775807}"#,
        ),
        ("output.n - 1 > 0", r#"{"text": "", "n": 1e400}"#),
        ("output.text.matches(output.text)", r#"{"text": "("}"#),
        ("output.n[3] == 1", r#"{"text": "", "n": [1]}"#),
        ("output.text", r#"{"text": "x"}"#),
    ] {
        let violation = check(&with_output(output, rule), "{}", answer).unwrap_err();
        assert_eq!(violation.kind, Rule, "{rule}");
        assert!(violation.sentence.contains("could not be evaluated"), "{violation}");
    }
}

#[test]
fn a_violation_says_what_is_wrong_and_where() {
    let sentence = |answer: &str| triaged(answer).unwrap_err().to_string();
    assert_eq!(
        sentence(&format!("```json\n{ANSWER}\n```")),
        "the answer is not strict JSON: the JSON stands in a code fence"
    );
    let wrong_type = sentence(&ANSWER.replace('4', "\"4\""));
    assert!(
        wrong_type.contains("at /urgency: the value is not of type \"integer\""),
        "{wrong_type}"
    );
    let extra = sentence(&ANSWER.replace('}', r#", "confidence": 0.9}"#));
    assert!(
        extra.contains("at the top: ") && extra.contains("'confidence'"),
        "{extra}"
    );
    let twice = sentence(&ANSWER.replace('}', r#", "urgency": 4}"#));
    assert!(twice.contains("stands twice") && twice.contains("at byte "), "{twice}");
}

#[test]
fn a_violation_shows_names_and_no_values_and_stays_short() {
    let secret = "4929 1234 5678 9012";
    let odd_name = format!("{}\u{202e}\\n", "k".repeat(10_000));
    for answer in [
        ANSWER.replace("\"billing\"", &format!("\"{secret}\"")),
        ANSWER.replace("4,", &format!("\"{secret}\",")),
        ANSWER.replace('}', &format!(", \"{odd_name}\": 1}}")),
    ] {
        let sentence = triaged(&answer).unwrap_err().to_string();
        assert!(!sentence.contains(secret), "{sentence}");
        assert!(!sentence.contains(['\u{202e}', '\n']), "{sentence}");
        assert!(sentence.chars().count() < 500, "{}", sentence.len());
    }
}

#[test]
fn at_most_five_problems_are_told_and_one_of_a_huge_value() {
    let contract = with_output(
        r#"{"type": "object", "properties": {"text": {"type": "string"}, "all": {"items": {"type": "string"}}}, "required": ["text"]}"#,
        "true",
    );
    let problems = |count: usize| {
        let numbers = vec!["1"; count].join(",");
        let violation = check(&contract, "{}", &format!(r#"{{"text": "", "all": [{numbers}]}}"#)).unwrap_err();
        (violation.sentence.matches("at /all/").count(), violation.sentence)
    };
    assert_eq!(problems(3).0, 3);
    let (told, sentence) = problems(20);
    assert_eq!(told, 5);
    assert!(sentence.ends_with("and 15 more"), "{sentence}");
    assert_eq!(problems(100_000).0, 1);
}

#[test]
fn the_word_asked_for_must_stand_first_and_alone() {
    let contract = triage();
    let kept = |summary: &str| {
        let answer = check(&contract, INPUT, &ANSWER.replace("Charged twice.", summary)).unwrap();
        contract.keeps_nonce(&answer, "ZEBRA7")
    };
    assert!(kept("ZEBRA7") && kept("ZEBRA7: charged twice") && kept("ZEBRA7 charged"));
    assert!(!kept("zebra7 charged") && !kept("ZEBRA77") && !kept("Charged. ZEBRA7") && !kept(" ZEBRA7"));
}

#[test]
fn a_golden_case_may_expect_more_than_the_rules() {
    let text = file(OPEN, TEXT, "x", "true", r#"{"n": 3}"#) + "expect = ['size(output.text) == input.n']\n";
    let contract = parse(&text).unwrap();
    let case = &contract.golden()[0];
    assert!(
        contract
            .check_golden(case, Bytes::from_static(br#"{"text": "abc"}"#))
            .is_ok()
    );
    let violation = contract
        .check_golden(case, Bytes::from_static(br#"{"text": "abcd"}"#))
        .unwrap_err();
    assert_eq!(violation.kind, Rule);
    assert!(
        violation.sentence.contains("golden case one") && violation.sentence.contains("input.n"),
        "{violation}"
    );
    assert_eq!(
        kind(contract.check_golden(case, Bytes::from_static(b"abc"))),
        Some(NotStrictJson)
    );
}

#[test]
fn every_shipped_golden_case_accepts_any_answer_that_the_schema_accepts() {
    for (name, answer) in [
        (
            "ticket-triage@1",
            r#"{"category": "other", "urgency": 1, "summary": "a"}"#,
        ),
        ("summarize@1", r#"{"summary": "a"}"#),
    ] {
        let contracts = shipped();
        let contract = contracts.get(&name.parse().unwrap()).unwrap();
        assert!(contract.golden().len() >= 2);
        for case in contract.golden() {
            contract
                .check_golden(case, Bytes::from_static(answer.as_bytes()))
                .unwrap();
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_check_panic(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(triage_once().check_answer(&json(INPUT), raw.into()));
    }

    #[test]
    fn no_damage_to_a_good_answer_makes_the_check_panic_or_pass_with_another_shape(
        at in 0usize..66, byte in any::<u8>(), cut in 0usize..3,
    ) {
        let mut raw = ANSWER.as_bytes().to_vec();
        raw.splice(at..(at + cut).min(raw.len()), [byte]);
        if let Ok(checked) = triage_once().check_answer(&json(INPUT), raw.clone().into()) {
            let read: serde_json::Value = serde_json::from_slice(&raw).unwrap();
            prop_assert_eq!(read.as_object().unwrap().len(), 3);
            prop_assert_eq!(checked.raw(), &raw);
        }
    }
}

fn triage_once() -> &'static Contract {
    static ONCE: std::sync::LazyLock<std::sync::Arc<Contract>> = std::sync::LazyLock::new(triage);
    &ONCE
}
