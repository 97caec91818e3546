use super::*;

const GOOD: &str = r#"
[providers.primary]
adapter = "openai"
base_url = "${SIM:-http://127.0.0.1:9100}/v1"
model = "sim-primary"
"#;

fn none(_: &str) -> Option<String> {
    None
}

#[test]
fn a_variable_takes_the_place_of_its_default() {
    let config = Config::parse(GOOD, none).unwrap();
    assert_eq!(
        config.providers.values().next().unwrap().base_url,
        "http://127.0.0.1:9100/v1"
    );
    let config = Config::parse(GOOD, |name| (name == "SIM").then(|| "http://sim:1".into())).unwrap();
    assert_eq!(config.providers.values().next().unwrap().base_url, "http://sim:1/v1");
}

#[test]
fn a_variable_without_value_and_default_is_named_with_its_line() {
    let error = Config::parse("# ${IGNORED}\nx = \"${MISSING}\"", none).unwrap_err();
    assert!(error.contains("line 2") && error.contains("MISSING"), "{error}");
}

#[test]
fn a_value_cannot_break_out_of_its_string() {
    let error = Config::parse(GOOD, |_| Some("\"\nmodel = \"x".into())).unwrap_err();
    assert!(error.contains("quotes"), "{error}");
}

#[test]
fn an_unknown_field_is_refused_by_name_and_line() {
    let error = Config::parse(&format!("{GOOD}timeot_ms = 5\n"), none).unwrap_err();
    assert!(error.contains("timeot_ms") && error.contains("line 6"), "{error}");
}

#[test]
fn a_worker_may_only_consume_providers_that_exist() {
    let error = Config::parse(&format!("[worker]\nproviders = [\"nobody\"]\n{GOOD}"), none).unwrap_err();
    assert!(error.contains("nobody"), "{error}");
}

#[test]
fn the_digest_moves_with_what_is_asked_and_not_with_limits() {
    let digest = |more: &str| {
        Config::parse(&format!("{GOOD}{more}"), none)
            .unwrap()
            .providers
            .values()
            .next()
            .unwrap()
            .digest()
    };
    assert_eq!(digest(""), digest("timeout_ms = 5\nconcurrency = 2\n"));
    assert_ne!(digest(""), digest("stream = true\n"));
    assert_ne!(digest(""), digest("served_models = [\"other\"]\n"));
}

#[test]
fn a_secret_does_not_show() {
    assert!(!format!("{:?}", Secret::new("sk-very-secret".into())).contains("sk"));
}
