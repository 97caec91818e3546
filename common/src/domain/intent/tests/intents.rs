//! Which bodies are the same intent, which are another, and which are none (design §4, scenarios B13 and B14).

use super::super::{BodyError, IntentError};
use super::{body, digest, intent, with_policy};
use crate::domain::Policy;

#[test]
fn the_digest_of_an_intent_never_changes_between_releases() {
    // Made apart from this code: SHA-256 over each text of the list, framed by its length as eight big-endian bytes:
    // "onejob intent 1", contract, summarize@1, provider, primary, input, {"a":[15e-1,"\u0001é"]}, policy, …
    assert_eq!(
        digest(&body("{ \"a\" : [ 1.50, \"\\u0001é\" ] }")).to_string(),
        "f2455f545dee892805121f6a215bcc048d209db8ae41f5cc0cea38f60c492f01"
    );
    assert_eq!(
        digest(&with_policy(
            r#"{"timeout_ms":1500,"deadline_ms":1,"hedge_after_ms":20,"fallback":["b","a"],"max_attempts":2}"#
        ))
        .to_string(),
        "71fe37db5ebaed41d3878c2a43d583a0f2ef467e447b8e6ed63f6405e49ffbfc"
    );
}

#[test]
fn equal_values_in_other_words_are_one_intent() {
    for (one, other) in [
        (
            r#"{"b":2,"a":[1,{"y":1,"x":2}]}"#,
            r#"{ "a" : [ 1 , {"x":2,"y":1} ] , "b" : 2 }"#,
        ),
        (r#"{"a":"caf\u00e9\/"}"#, r#"{"a":"café/"}"#),
        (r#"{"caf\u00e9":"\ud83d\ude00\n"}"#, "{\"café\":\"😀\\u000A\"}"),
        ("1", "1.0"),
        ("1", "1e0"),
        ("1", "10e-1"),
        ("100", "1e2"),
        ("0.5", "5E-1"),
        ("0", "0.000"),
        ("0", "-0"),
        (
            r#"{"model":"m","t":1.0,"o":{"b":2,"a":1}}"#,
            r#"{"o":{"a":1,"b":2},"t":1,"model":"m"}"#,
        ),
    ] {
        assert_eq!(digest(&body(one)), digest(&body(other)), "{one} and {other}");
        let deep = |text: &str| digest(&body(&format!(r#"{{"x":[{{"y":[{text}]}}]}}"#)));
        assert_eq!(deep(one), deep(other), "{one} and {other}, deep down");
    }
    assert_eq!(
        digest(r#"{"contract":"summarize@1","provider":"primary","input":{}}"#),
        digest("\r\n{ \"input\":{},\t\"\\u0063ontract\":\"summarize\\u00401\",\"provider\":\"primary\" }\n")
    );
}

#[test]
fn unequal_values_are_another_intent() {
    for (one, other) in [
        (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
        (r#"{"a":1}"#, r#"{"a":"1"}"#),
        (r#"{"a":1}"#, r#"{"a":true}"#),
        (r#"{"a":null}"#, "{}"),
        (r#"{"a":{}}"#, r#"{"a":[]}"#),
        (r#"{"a":null}"#, r#"{"a":"null"}"#),
        (r#"{"a":null}"#, r#"{"a":false}"#),
        (r#"{"a":9007199254740992}"#, r#"{"a":9007199254740993}"#),
        (r#"{"a":0.1}"#, r#"{"a":0.10000000000000001}"#),
        (r#"{"a":"é"}"#, "{\"a\":\"e\u{301}\"}"),
        (r#"{"é":1}"#, "{\"e\u{301}\":1}"),
        (r#"{"a":1}"#, r#"{"A":1}"#),
        (r#"{"a":"x"}"#, r#"{"a":"x "}"#),
        (r#"{"a":["b","c"]}"#, r#"{"a":["b,c"]}"#),
        (r#"{"a":["b","c"]}"#, r#"{"a":["b\",\"c"]}"#),
        (r#"{"a":"\\n"}"#, r#"{"a":"\n"}"#),
        (r#"{"a":"\\u00e9"}"#, r#"{"a":"\u00e9"}"#),
        (r#"{"a":[[],[]]}"#, r#"{"a":[[[]]]}"#),
        (r#"{"a":"","b":"x"}"#, r#"{"a":"x","b":""}"#),
    ] {
        assert_ne!(digest(&body(one)), digest(&body(other)), "{one} and {other}");
    }
}

#[test]
fn every_field_counts() {
    let base = r#"{"contract":"c@1","provider":"p","input":{},"policy":{}}"#;
    for other in [
        r#"{"contract":"c@2","provider":"p","input":{}}"#,
        r#"{"contract":"c@1","provider":"q","input":{}}"#,
        r#"{"contract":"c@1","provider":"p","input":[]}"#,
        r#"{"contract":"c@1","provider":"p","input":null}"#,
        r#"{"contract":"c@1","provider":"p","input":{},"policy":{"max_attempts":4}}"#,
        r#"{"contract":"c@1","provider":"p","input":{},"policy":{"timeout_ms":3}}"#,
        r#"{"contract":"c@1","provider":"p","input":{},"policy":{"deadline_ms":3}}"#,
        r#"{"contract":"c@1","provider":"p","input":{},"policy":{"hedge_after_ms":3}}"#,
        r#"{"contract":"c@1","provider":"p","input":{},"policy":{"fallback":["q"]}}"#,
    ] {
        assert_ne!(digest(base), digest(other), "{other}");
    }
    assert_ne!(
        digest(&with_policy(r#"{"fallback":["q","r"]}"#)),
        digest(&with_policy(r#"{"fallback":["r","q"]}"#)),
        "their order is the order in which they take over"
    );
}

#[test]
fn an_absent_policy_an_empty_one_and_the_defaults_are_one() {
    let absent = digest(&body("{}"));
    for policy in [
        "{}",
        r#"{"max_attempts":3}"#,
        r#"{"max_attempts":3.0,"fallback":[]}"#,
        r#"{ "fallback" : [ ], "max_attempts" : 30e-1 }"#,
    ] {
        assert_eq!(digest(&with_policy(policy)), absent, "{policy}");
        assert_eq!(
            intent(&with_policy(policy)).expect(policy).policy,
            Policy::default(),
            "{policy}"
        );
    }
}

#[test]
fn a_policy_s_numbers_are_whole_in_any_spelling_and_within_their_ranges() {
    for (field, most) in [
        ("max_attempts", 20),
        ("timeout_ms", Policy::LONGEST_CALL_MS),
        ("hedge_after_ms", Policy::LONGEST_CALL_MS),
        ("deadline_ms", Policy::LONGEST_DEADLINE_MS),
    ] {
        let policy = |value: &str| intent(&with_policy(&format!(r#"{{"{field}":{value}}}"#)));
        for value in ["1", "2", "2.0", "2e0", "20e-1", &most.to_string()] {
            assert!(policy(value).is_ok(), "{field} {value}");
        }
        for value in ["0", "-1", "-0", "1.5", "1e-1", "1e10000", &(most + 1).to_string()] {
            let error = policy(value).expect_err(value);
            assert!(
                matches!(&error, IntentError::Malformed(BodyError::OutOfRange { path, .. }) if *path == format!("policy.{field}")),
                "{field} {value}: {error}"
            );
        }
        for value in ["\"2\"", "null", "true", "[2]", "{}"] {
            let error = policy(value).expect_err(value);
            assert!(
                matches!(error, IntentError::Malformed(BodyError::WrongType { .. })),
                "{field} {value}: {error}"
            );
        }
    }
    let error = intent(&with_policy(r#"{"max_attempts":2.5}"#)).expect_err("a fraction");
    assert_eq!(
        error.to_string(),
        "policy.max_attempts must be a whole number from 1 to 20; it is 2.5"
    );
    assert_eq!(
        digest(&with_policy(r#"{"timeout_ms":1500}"#)),
        digest(&with_policy(r#"{"timeout_ms":15e2}"#))
    );
}

#[test]
fn fallbacks_are_a_few_names_each_once_and_never_the_provider_itself() {
    let fallback = |list: &str| intent(&with_policy(&format!(r#"{{"fallback":{list}}}"#)));
    let names = |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("\"p{n}\"")).collect();
        format!("[{}]", names.join(","))
    };
    let eight = fallback(&names(8)).expect("eight").policy.fallback;
    assert_eq!((eight.len(), eight[7].as_str()), (8, "p7"));
    for (list, sentence) in [
        (names(9), "policy.fallback has 9 entries: keep at most 8"),
        (
            r#"["backup","backup"]"#.to_owned(),
            "policy.fallback[1] names backup, which stands before it: leave it out",
        ),
        (
            r#"["backup","primary"]"#.to_owned(),
            "policy.fallback[1] names primary, which is the provider that the job begins with: leave it out",
        ),
        (
            r#"["backup",5]"#.to_owned(),
            "policy.fallback[1] must be a string; it is a number",
        ),
        (
            r#""backup""#.to_owned(),
            "policy.fallback must be an array of strings; it is a string",
        ),
        (
            "null".to_owned(),
            "policy.fallback must be an array of strings; it is null",
        ),
    ] {
        let error = fallback(&list).expect_err(&list);
        assert!(matches!(error, IntentError::Malformed(_)), "{list}");
        assert_eq!(error.to_string(), sentence);
    }
    assert_eq!(
        fallback(r#"["No Where"]"#),
        Err(IntentError::UnknownProvider("No Where".to_owned()))
    );
}

#[test]
fn a_body_that_is_no_intent_is_refused_with_the_field_to_correct() {
    for (body, sentence) in [
        (r#"{"provider":"p","input":{}}"#, "contract is missing: add it"),
        (r#"{"contract":"c@1","input":{}}"#, "provider is missing: add it"),
        (r#"{"contract":"c@1","provider":"p"}"#, "input is missing: add it"),
        (
            r#"{"contract":1,"provider":"p","input":{}}"#,
            "contract must be a string; it is a number",
        ),
        (
            r#"{"contract":"c@1","provider":null,"input":{}}"#,
            "provider must be a string; it is null",
        ),
        (
            r#"{"contract":"c@1","provider":"p","input":{},"policy":null}"#,
            "policy must be an object; it is null",
        ),
        (
            r#"{"contract":"c@1","provider":"p","input":{},"policy":[]}"#,
            "policy must be an object; it is an array",
        ),
        (
            r#"{"contract":"c@1","provider":"p","inputs":{}}"#,
            "\"inputs\" is not a field of this request: leave it out, or correct its name; \
             known here: contract, provider, input, policy",
        ),
        (
            r#"{"contract":"c@1","provider":"p","input":{},"policy":{"retries":3}}"#,
            "policy.\"retries\" is not a field of this request: leave it out, or correct its name; \
             known here: max_attempts, timeout_ms, deadline_ms, fallback, hedge_after_ms",
        ),
        (
            r#"{"contract":"c@1","provider":"p","input":{},"webhook_url":"not a url"}"#,
            "webhook_url is not supported yet: leave it out",
        ),
        (
            r#"{"contract":"c@1","provider":"p","input":{},"webhook_url":null}"#,
            "webhook_url is not supported yet: leave it out",
        ),
        ("[]", "the body is an array: send a JSON object"),
        ("", "the body is empty: send a JSON object"),
    ] {
        let error = intent(body).expect_err(body);
        assert!(matches!(error, IntentError::Malformed(_)), "{body}");
        assert_eq!(error.to_string(), sentence, "{body}");
    }
}

#[test]
fn a_name_that_nothing_can_have_is_unknown_and_not_malformed() {
    let named = |contract: &str, provider: &str| {
        intent(&format!(
            r#"{{"contract":"{contract}","provider":"{provider}","input":{{}}}}"#
        ))
    };
    for contract in ["Nope 9", "", "nope", "nope@0", "nope@01"] {
        assert_eq!(
            named(contract, "p"),
            Err(IntentError::UnknownContract(contract.to_owned()))
        );
    }
    assert_eq!(named("c@1", "No"), Err(IntentError::UnknownProvider("No".to_owned())));
    assert!(
        named("nope@9", "nowhere").is_ok(),
        "whether they exist is not known here"
    );
    let error = named("Nope 9", "p").expect_err("unknown").to_string();
    assert!(error.starts_with(r#"there is no contract "Nope 9": "#), "{error}");
    // What is malformed is said first: the client has to correct it anyway.
    let both = r#"{"contract":"Nope 9","provider":"p","input":{},"policy":{"max_attempts":0}}"#;
    assert!(matches!(intent(both), Err(IntentError::Malformed(_))));
}

#[test]
fn the_input_is_kept_as_it_was_written() {
    let text = "{ \"b\" : 1.0,\n\"a\":\"\\u00e9\" , \"n\":1e400}";
    let kept = intent(&format!(r#"{{"contract":"c@1", "input":  {text}  ,"provider":"p"}}"#))
        .expect("an intent")
        .input;
    assert_eq!(kept.as_str(), text);
    assert_eq!(kept.value().get("a").and_then(|value| value.as_str()), Some("é"));
}
