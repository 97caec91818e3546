//! Contract files: what is refused, with which line, and what the digest holds.

use super::*;

/// Where the error says it is: line and field.
fn place(error: &ContractError) -> (usize, &str) {
    match error {
        ContractError::Invalid { line, field, .. } => (*line, field),
        ContractError::Read { .. } | ContractError::Empty { .. } => panic!("no place in {error}"),
    }
}

/// The line of the good file that begins with `start`, replaced.
fn with_line(start: &str, new: &str) -> String {
    let good = file(OPEN, TEXT, "{{ input | tojson }}", "true", "{}");
    assert_eq!(
        good.lines().filter(|line| line.starts_with(start)).count(),
        1,
        "{start}"
    );
    good.lines()
        .map(|line| if line.starts_with(start) { new } else { line })
        .collect::<Vec<_>>()
        .join("\n")
        + "\n"
}

#[test]
fn the_file_that_the_tests_vary_is_good() {
    let contract = parse(&with_line("version", "version = 1")).unwrap();
    assert_eq!(contract.name().as_str(), "small@1");
    assert_eq!(contract.rules.len(), 1);
    assert_eq!(contract.golden().len(), 1);
}

#[test]
fn a_wrong_value_is_refused_with_its_line_and_field() {
    for (start, new, line, field) in [
        ("name = \"small\"", "name = \"Small\"", 1, "name"),
        ("name = \"small\"", "name = \"other\"", 1, "name"),
        ("version", "version = 2", 1, "name"),
        ("version", "version = 0", 1, "name"),
        ("version", "version = \"1\"", 2, "TOML"),
        ("version", "version = 1\ncolour = \"red\"", 3, "TOML"),
        ("version", "version = ", 2, "TOML"),
        ("max_output_tokens", "max_output_tokens = 0", 3, "max_output_tokens"),
        (
            "max_output_tokens",
            "max_output_tokens = 2000000",
            3,
            "max_output_tokens",
        ),
        ("nonce_field", "nonce_field = \"none\"", 4, "nonce_field"),
        (
            "[input]",
            "[sampling]\ntemperature = 2.1\n[input]",
            7,
            "sampling.temperature",
        ),
        (
            "[input]",
            "[sampling]\ntemperature = nan\n[input]",
            7,
            "sampling.temperature",
        ),
        (
            "[input]",
            "[sampling]\ntemperature = -0.1\n[input]",
            7,
            "sampling.temperature",
        ),
        ("[input]", "[sampling]\ntop_p = 0.0\n[input]", 7, "sampling.top_p"),
        ("[input]", "[sampling]\ntop_k = 1\n[input]", 7, "TOML"),
        ("role = \"user\"", "role = \"tool\"", 21, "TOML"),
        ("role = \"user\"", "role = \"system\"", 21, "messages[1].role"),
        ("role = \"system\"", "role = \"user\"", 17, "messages[0].role"),
        ("role = \"user\"", "role = \"assistant\"", 16, "messages"),
        ("rule = ", "rule = 'output.'", 27, "rules[0].rule"),
        ("rule = ", "rule = 'ouput.text == \"\"'", 27, "rules[0].rule"),
        ("rule = ", "rule = 'length(output.text) > 0'", 27, "rules[0].rule"),
        ("input = ", "input = '{'", 32, "golden[0].input"),
        ("input = ", "input = '[]'", 32, "golden[0].input"),
        (
            "input = ",
            "input = '{}'\nexpect = ['output.text ==']",
            33,
            "golden[0].expect[0]",
        ),
    ] {
        let error = parse(&with_line(start, new)).unwrap_err();
        assert_eq!(place(&error), (line, field), "{new}: {error}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("small@1.toml, line {line}, {field}: ")),
            "{error}"
        );
    }
}

#[test]
fn an_error_within_a_long_text_has_the_line_in_the_file() {
    let schema = "{\n  \"type\": \"object\",\n  \"type\": 5\n}";
    let error = parse(&file(OPEN, schema, "x", "true", "{}")).unwrap_err();
    assert_eq!(place(&error), (15, "output.schema"), "{error}");

    let error = parse(&file(OPEN, TEXT, "a\nb\n{{ input.", "true", "{}")).unwrap_err();
    assert_eq!(place(&error), (25, "messages[1].template"), "{error}");
    let error = parse(&file(OPEN, TEXT, "a\n{{ inptu.x }}", "true", "{}")).unwrap_err();
    assert_eq!(place(&error), (24, "messages[1].template"), "{error}");
    assert!(error.to_string().contains("there is no inptu"), "{error}");

    let error = parse(&file(OPEN, TEXT, "x", "true &&\n  output.text +", "{}")).unwrap_err();
    assert_eq!(place(&error), (28, "rules[0].rule"), "{error}");

    let error = parse(&file(OPEN, TEXT, "x", "true", "{\n\"a\": 1,\n\"a\": 2}")).unwrap_err();
    assert_eq!(place(&error), (34, "golden[0].input"), "{error}");
}

#[test]
fn a_golden_input_must_fit_the_schema_and_the_templates() {
    let error = parse(&file(TEXT, TEXT, "{{ input.text }}", "true", r#"{"text": 5}"#)).unwrap_err();
    assert!(error.to_string().contains("at /text"), "{error}");
    let error = parse(&file(OPEN, TEXT, "{{ input.text }}", "true", "{}")).unwrap_err();
    assert!(error.to_string().contains("messages[1]"), "{error}");
    let error = parse(&file(OPEN, TEXT, "{% include 'other' %}", "true", "{}")).unwrap_err();
    assert_eq!(place(&error).1, "golden[0].input", "{error}");
}

#[test]
fn names_stand_once_and_a_contract_has_golden_cases() {
    let good = file(OPEN, TEXT, "x", "true", "{}");
    let twice = good.clone() + "[[golden]]\nname = \"one\"\ninput = '{}'\n";
    assert_eq!(place(&parse(&twice).unwrap_err()), (34, "golden[1].name"));
    let twice = good.clone() + "[[rules]]\nname = \"rule\"\nrule = 'true'\nmessage = ''\n";
    assert_eq!(place(&parse(&twice).unwrap_err()), (34, "rules[1].name"));
    let none = good.split("[[golden]]").next().unwrap();
    assert!(parse(none).unwrap_err().to_string().contains("[[golden]]"));
}

#[test]
fn macros_bind_names_and_types_are_known_in_rules() {
    for rule in [
        "output.text.startsWith('') && input.l.all(x, x > 0 && input.l.exists(y, y == x))",
        "type(output.text) == string && size(output.text) >= 0 && !has(output.other)",
        "[1, 2].map(n, n * 2).size() == 2 && {'a': 1}.a == 1 && 'b' in ['b'] && int('5') == 5",
        "output.text.trim().split(' ').size() >= 0 && output.text.lowerAscii() == ''",
        "output.text.contains('') || output.text.endsWith('') || output.text.matches('^a')",
    ] {
        let contract = with_output(TEXT, rule);
        check(&contract, r#"{"l": [1, 2]}"#, r#"{"text": ""}"#).unwrap();
    }
}

#[test]
fn a_folder_gives_its_contracts_and_leaves_other_files_alone() {
    let dir = tempfile::tempdir().unwrap();
    let load = || Contracts::load(dir.path());
    assert!(matches!(load(), Err(ContractError::Empty { .. })));
    assert!(matches!(
        Contracts::load(&dir.path().join("none")),
        Err(ContractError::Read { .. })
    ));
    let good = file(OPEN, TEXT, "x", "true", "{}");
    for name in ["small@1.toml", ".small@2.toml", "README.md"] {
        std::fs::write(dir.path().join(name), &good).unwrap();
    }
    let contracts = load().unwrap();
    assert_eq!(
        contracts
            .iter()
            .map(|contract| contract.name().as_str())
            .collect::<Vec<_>>(),
        ["small@1"]
    );
    assert!(contracts.get(&"small@2".parse().unwrap()).is_none());
    std::fs::write(dir.path().join("small@2.toml"), &good).unwrap();
    let error = load().unwrap_err().to_string();
    assert!(
        error.contains("small@2.toml, line 1, name: the file of small@1 must be called small@1.toml"),
        "{error}"
    );
    std::fs::write(dir.path().join("small@2.toml"), b"\xff").unwrap();
    assert!(matches!(load(), Err(ContractError::Read { .. })));
}

#[test]
fn the_digest_leaves_out_what_changes_nothing() {
    let good = file(OPEN, TEXT, "x", "true", r#"{"a": 1}"#);
    let digest = |text: &str| *parse(text).unwrap().digest();
    for same in [
        format!("# A comment.\n\n{good}"),
        good.replace("version = 1", "version    = 1\ndescription = \"For tests.\""),
        good.replace(TEXT, &TEXT.replace(", ", " ,\n   ")),
        good.replace(r#"{"a": 1}"#, r#" { "a":1 } "#),
        good.replace("it is not so", "it is otherwise"),
        good.replace("[input]", "[sampling]\ntemperature = 0\n[input]"),
    ] {
        assert_eq!(digest(&same), digest(&good), "{same}");
    }
}

#[test]
fn the_digest_holds_what_is_asked_and_accepted() {
    let good = file(OPEN, TEXT, "x", "true", r#"{"a": 1}"#);
    let mut digests = vec![*parse(&good).unwrap().digest()];
    for other in [
        good.replace("max_output_tokens = 10", "max_output_tokens = 11"),
        good.replace("Be brief.", "Be brief!"),
        good.replace("'''\nx'''", "'''\ny'''"),
        good.replace("rule = '''true'''", "rule = '''!false'''"),
        good.replace(r#"{"a": 1}"#, r#"{"a": 1.0}"#),
        good.replace("name = \"one\"", "name = \"two\""),
        good.replace(TEXT, &TEXT.replace("\"string\"", "\"string\", \"maxLength\": 9")),
        good.replace(OPEN, &OPEN.replace("true", "{}")),
        good.replace("[input]", "[sampling]\ntemperature = 0.1\n[input]"),
        good.replace("[input]", "[sampling]\ntop_p = 0.5\n[input]"),
        good.replace("[input]", "[sampling]\nseed = 1\n[input]"),
        good.clone() + "expect = ['true']\n",
        good.clone() + "[[golden]]\nname = \"more\"\ninput = '{}'\n",
    ] {
        digests.push(*parse(&other).unwrap().digest());
    }
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count, "each change gives another digest");
}
