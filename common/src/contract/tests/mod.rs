//! Shows that contracts are what design §9 says: closed, strict, byte-identical, and refused with a line where wrong.

mod answers;
mod files;
mod prompts;
mod schemas;

use std::path::Path;

use bytes::Bytes;

use super::{CheckedAnswer, Contract, ContractError, Contracts, Violation, ViolationKind};
use crate::domain::intent::Json;

const ANSWER: &str = r#"{"category": "billing", "urgency": 4, "summary": "Charged twice."}"#;

/// The contracts that the project ships.
fn shipped() -> Contracts {
    Contracts::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../contracts")).unwrap()
}

fn triage() -> std::sync::Arc<Contract> {
    std::sync::Arc::clone(shipped().get(&"ticket-triage@1".parse().unwrap()).unwrap())
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), Json::DEEPEST).unwrap()
}

/// A small contract with what a test wants to vary.
fn file(input: &str, output: &str, template: &str, rule: &str, golden: &str) -> String {
    format!(
        r#"name = "small"
version = 1
max_output_tokens = 10
nonce_field = "text"

[input]
schema = '''
{input}
'''

[output]
schema = '''
{output}
'''

[[messages]]
role = "system"
template = "Be brief."

[[messages]]
role = "user"
template = '''
{template}'''

[[rules]]
name = "rule"
rule = '''{rule}'''
message = "it is not so"

[[golden]]
name = "one"
input = '''{golden}'''
"#
    )
}

const OPEN: &str = r#"{"type": "object", "additionalProperties": true}"#;
const TEXT: &str = r#"{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}"#;

fn parse(text: &str) -> Result<Contract, ContractError> {
    Contract::parse(Path::new("small@1.toml"), text)
}

/// A contract with an open input and this template.
fn with_template(template: &str) -> Contract {
    parse(&file(OPEN, TEXT, template, "true", r#"{"x": 1, "o": {"p": 1}}"#)).unwrap()
}

/// A contract with this output schema and rule.
fn with_output(output: &str, rule: &str) -> Contract {
    parse(&file(OPEN, output, "x", rule, "{}")).unwrap()
}

fn check(contract: &Contract, input: &str, answer: &str) -> Result<CheckedAnswer, Violation> {
    contract.check_answer(&json(input), Bytes::copy_from_slice(answer.as_bytes()))
}

fn kind(result: Result<CheckedAnswer, Violation>) -> Option<ViolationKind> {
    result.err().map(|violation| violation.kind)
}
