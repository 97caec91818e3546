//! What providers are sent: the client's text unchanged, numbers as they were written, one schema for all.

use super::*;
use crate::contract::{Prompt, Role};

fn user(contract: &Contract, input: &str) -> String {
    contract.render(&json(input)).unwrap().messages.pop().unwrap().content
}

#[test]
fn the_clients_text_reaches_the_prompt_as_it_was_written() {
    let message = "cafe\u{301} ☕ \u{202e}wow \u{a0} 12345678901234567890 \"quoted\" \\slash <b>&amp;'\n\ttab {{ 7 * 7 }} {% raw %} \u{1}\n\n";
    let input = serde_json::json!({ "message": message }).to_string();
    assert_eq!(user(&triage(), &input), message);
}

#[test]
fn numbers_keep_their_spelling() {
    let numbers = [
        "0",
        "-0",
        "7",
        "1.0",
        "1.10",
        "1e2",
        "1E+2",
        "0.1",
        "0.10000000000000001",
        "9007199254740993",
        "12345678901234567890",
        "-12345678901234567890.10",
        "1e400",
        "-1e-400",
        "18446744073709551616",
        "1e16",
        "1e-7",
    ];
    let contract = with_template("{{ input.x }}|{{ input.x | tojson }}|{{ input | tojson }}");
    for number in numbers {
        let expected = format!(r#"{number}|{number}|{{"x": {number}, "o": [{number}]}}"#);
        assert_eq!(
            user(&contract, &format!(r#"{{"x": {number}, "o": [{number}]}}"#)),
            expected
        );
    }
}

#[test]
fn values_are_written_as_json_in_their_order_and_not_for_html() {
    let value = r#"{"z": [1, "<a href='x'>&", {"b": null, "a": true}], "a": "é☕", "k\"": {}, "l": []}"#;
    let contract = with_template("{{ input.x | tojson }}");
    assert_eq!(user(&contract, &format!(r#"{{"x": {value}}}"#)), value);
    // Without the filter it is the same: there is no second way to spell a value.
    let contract = with_template("{{ input.x }}");
    assert_eq!(user(&contract, &format!(r#"{{"x": {value}}}"#)), value);
    assert_eq!(user(&contract, r#"{"x": true}"#), "true");
    assert_eq!(user(&contract, r#"{"x": null}"#), "null");
}

#[test]
fn a_list_longer_than_any_debug_output_is_written_whole() {
    let list = format!("[{}]", vec!["1.50"; 5_000].join(", "));
    assert_eq!(
        user(&with_template("{{ input.x }}"), &format!(r#"{{"x": {list}}}"#)),
        list
    );
}

#[test]
fn options_are_shown_only_where_there_are_any() {
    let contracts = shipped();
    let contract = contracts.get(&"summarize@1".parse().unwrap()).unwrap();
    assert_eq!(user(contract, r#"{"text": "Hello."}"#), "Hello.");
    assert_eq!(
        user(contract, r#"{"text": "Hello.", "options": {"n": 1.10}}"#),
        "Options: {\"n\": 1.10}\n\nHello."
    );
}

#[test]
fn a_name_that_is_absent_is_an_error_and_not_an_empty_text() {
    for template in [
        "{{ input.o.p }}",
        "{% if input.x %}a{% endif %}",
        "{{ input.x | tojson }}",
        "{{ input.x ~ 'a' }}",
    ] {
        let contract = with_template(template);
        let error = contract.render(&json(r#"{"o": {}}"#)).unwrap_err();
        assert_eq!(error.message, 1, "{template}");
        assert!(error.to_string().contains("is defined"), "{template}: {error}");
    }
    let contract = with_template("{% if input.x is defined %}{{ input.x }}{% endif %}.{{ 'a' if false }}");
    assert_eq!(user(&contract, "{}"), ".");
}

#[test]
fn a_rendering_that_asks_for_too_much_work_ends() {
    let contract = with_template(
        "{% if input.o.p > 1 %}{% for a in input.x %}{% for b in range(1000) %}{{ b }}{% endfor %}{% endfor %}{% endif %}",
    );
    let big = format!(r#"{{"x": [{}], "o": {{"p": 2}}}}"#, vec!["1"; 10_000].join(","));
    let error = contract.render(&json(&big)).unwrap_err();
    assert!(error.problem.contains("too large"), "{error}");
}

#[test]
fn an_input_of_a_megabyte_can_be_rendered() {
    let options = format!("[{}]", vec!["1.50"; 200_000].join(", "));
    assert_eq!(
        user(
            &with_template("{{ input.x | tojson }}"),
            &format!(r#"{{"x": {options}}}"#)
        ),
        options
    );
}

#[test]
fn the_schema_is_the_same_bytes_in_every_request() {
    let contract = triage();
    let sent = |prompt: &Prompt| serde_json::to_string(&prompt.response_schema).unwrap();
    let first = contract.render(&json(r#"{"message": "a"}"#)).unwrap();
    let second = triage()
        .render_with_nonce(&json(r#"{"message": "b"}"#), "ZEBRA7")
        .unwrap();
    assert_eq!(sent(&first), sent(&second));
    assert_eq!(sent(&first), contract.output_schema().get());
    assert_eq!(
        sent(&first),
        r#"{"type":"object","properties":{"category":{"type":"string","enum":["billing","technical","account","other"]},"urgency":{"type":"integer","minimum":1,"maximum":5},"summary":{"type":"string","minLength":1,"maxLength":1000}},"required":["category","urgency","summary"],"additionalProperties":false}"#
    );
    assert_eq!(&*first.schema_name, "ticket-triage-1");
    assert_eq!(first.sampling.temperature, 0.0);
    assert_eq!(first.max_output_tokens, 300);
}

#[test]
fn only_the_system_message_asks_for_the_word() {
    let contract = triage();
    let input = json(r#"{"message": "a"}"#);
    let (plain, asking) = (
        contract.render(&input).unwrap(),
        contract.render_with_nonce(&input, "ZEBRA7").unwrap(),
    );
    let roles: Vec<_> = asking.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User]);
    assert_eq!(
        asking.messages[0].content,
        format!(
            "{}\n\nBegin the value of \"summary\" with the word ZEBRA7.",
            plain.messages[0].content
        )
    );
    assert_eq!(asking.messages[1], plain.messages[1]);
    assert_eq!(
        serde_json::to_string(&plain.messages[1]).unwrap(),
        r#"{"role":"user","content":"a"}"#
    );
}
