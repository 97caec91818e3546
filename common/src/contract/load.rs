//! From a file to a compiled contract: everything that can be wrong with it is found here, not at the first job.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use toml::Spanned;

use super::file::{ContractError, File, GoldenTable, MessageTable, SamplingTable, Source, line_of};
use super::prompt::{Role, Sampling, Templates, value_of, write_json};
use super::rules::Rule;
use super::schema::Schema;
use super::{Contract, Golden};
use crate::domain::ContractName;
use crate::domain::intent::Json;

/// More than any model answers with.
const MOST_OUTPUT_TOKENS: u32 = 1_000_000;
/// The longest name of a schema that OpenAI's API takes.
const LONGEST_SCHEMA_NAME: usize = 64;

/// Every contract of a folder. A name can't stand twice: it is also the file's.
pub(super) fn folder(dir: &Path) -> Result<BTreeMap<ContractName, Arc<Contract>>, ContractError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| ContractError::Read { path, source }
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .map_err(unreadable(dir))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(unreadable(dir))?;
    let is_contract = |path: &PathBuf| {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !hidden && path.extension().is_some_and(|extension| extension == "toml")
    };
    paths.retain(is_contract);
    paths.sort();
    let mut contracts = BTreeMap::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(unreadable(&path))?;
        let contract = contract(&path, &text)?;
        contracts.insert(contract.name.clone(), Arc::new(contract));
    }
    if contracts.is_empty() {
        return Err(ContractError::Empty { dir: dir.into() });
    }
    Ok(contracts)
}

/// One contract.
pub(super) fn contract(path: &Path, text: &str) -> Result<Contract, ContractError> {
    let source = Source { path, text };
    let file = source.read()?;
    let name = name(source, &file)?;
    let schema_name = name.as_str().replace('@', "-");
    if schema_name.len() > LONGEST_SCHEMA_NAME {
        let problem = format!("name and version may have {LONGEST_SCHEMA_NAME} characters together");
        return Err(source.error("name", file.name.span(), problem));
    }
    let tokens = *file.max_output_tokens.get_ref();
    if tokens == 0 || tokens > MOST_OUTPUT_TOKENS {
        let problem = format!("must be from 1 to {MOST_OUTPUT_TOKENS}");
        return Err(source.error("max_output_tokens", file.max_output_tokens.span(), problem));
    }
    let input = schema(source, "input.schema", &file.input.schema)?;
    let output = schema(source, "output.schema", &file.output.schema)?;
    if !output.has_free_text(file.nonce_field.get_ref()) {
        let problem = "must name a required property of the output with \"type\": \"string\" and without enum, const, \
                       pattern or format: the certification asks for a word in it";
        return Err(source.error("nonce_field", file.nonce_field.span(), problem));
    }
    let sampling = sampling(source, &file.sampling)?;
    let templates = templates(source, &file.messages)?;
    let mut rules = Vec::new();
    for (index, table) in file.rules.iter().enumerate() {
        unique(
            source,
            &format!("rules[{index}].name"),
            &table.name,
            file.rules.iter().map(|other| &other.name),
        )?;
        rules.push(rule(
            source,
            &format!("rules[{index}].rule"),
            table.name.get_ref(),
            &table.rule,
            &table.message,
        )?);
    }
    let mut golden = Vec::new();
    for (index, table) in file.golden.iter().enumerate() {
        unique(
            source,
            &format!("golden[{index}].name"),
            &table.name,
            file.golden.iter().map(|other| &other.name),
        )?;
        let case = golden_case(source, &format!("golden[{index}]"), table, &input)?;
        templates
            .render(&case.input)
            .map_err(|error| source.error(format!("golden[{index}].input"), table.input.span(), error.to_string()))?;
        golden.push(case);
    }
    if golden.is_empty() {
        return Err(source.error_of_file("it has no [[golden]] case: give at least one real input to certify with"));
    }
    let mut contract = Contract {
        name,
        description: file.description,
        schema_name: schema_name.into(),
        input,
        output,
        templates,
        rules,
        sampling,
        max_output_tokens: tokens,
        nonce_field: file.nonce_field.into_inner(),
        golden,
        digest: [0; 32],
    };
    contract.digest = digest(&contract, file.messages.get_ref());
    Ok(contract)
}

fn name(source: Source<'_>, file: &File) -> Result<ContractName, ContractError> {
    let whole = format!("{}@{}", file.name.get_ref(), file.version.get_ref());
    let name: ContractName = whole
        .parse()
        .map_err(|error| source.error("name", file.name.span(), format!("{error}")))?;
    let stem = source.path.file_stem().and_then(|stem| stem.to_str());
    if stem != Some(name.as_str()) {
        let problem = format!("the file of {name} must be called {name}.toml: rename it, or correct name and version");
        return Err(source.error("name", file.name.span(), problem));
    }
    Ok(name)
}

fn schema(source: Source<'_>, field: &str, text: &Spanned<String>) -> Result<Schema, ContractError> {
    Schema::compile(text.get_ref()).map_err(|error| source.error_inside(field, text, error.line, error.problem))
}

fn sampling(source: Source<'_>, table: &SamplingTable) -> Result<Sampling, ContractError> {
    let within = |field: &str, value: &Option<Spanned<f64>>, allowed: fn(f64) -> bool, range: &str| match value {
        Some(value) if !allowed(*value.get_ref()) => {
            Err(source.error(format!("sampling.{field}"), value.span(), format!("must be {range}")))
        }
        other => Ok(other.as_ref().map(|value| *value.get_ref())),
    };
    Ok(Sampling {
        temperature: within(
            "temperature",
            &table.temperature,
            |t| (0.0..=2.0).contains(&t),
            "from 0 to 2",
        )?
        .unwrap_or(0.0),
        top_p: within("top_p", &table.top_p, |p| p > 0.0 && p <= 1.0, "above 0 and up to 1")?,
        seed: table.seed,
    })
}

fn templates(source: Source<'_>, messages: &Spanned<Vec<MessageTable>>) -> Result<Templates, ContractError> {
    let tables = messages.get_ref();
    for (index, table) in tables.iter().enumerate() {
        // Many chat templates take one system message, at the beginning, and expect the user to speak last.
        let wrong = match table.role.get_ref() {
            Role::System => (index > 0).then_some("system is the role of the first message alone"),
            Role::User | Role::Assistant => (index == 0).then_some("the first message must be the system's"),
        };
        if let Some(problem) = wrong {
            return Err(source.error(format!("messages[{index}].role"), table.role.span(), problem));
        }
    }
    if tables.last().is_none_or(|last| *last.role.get_ref() != Role::User) {
        return Err(source.error("messages", messages.span(), "the last message must be the user's"));
    }
    Templates::compile(
        tables
            .iter()
            .map(|table| (*table.role.get_ref(), table.template.get_ref().as_str())),
    )
    .map_err(|error| {
        let field = format!("messages[{}].template", error.message);
        match tables.get(error.message) {
            Some(table) => source.error_inside(field, &table.template, error.line, error.problem),
            None => source.error(field, messages.span(), error.problem),
        }
    })
}

fn rule(
    source: Source<'_>,
    field: &str,
    name: &str,
    text: &Spanned<String>,
    message: &str,
) -> Result<Rule, ContractError> {
    Rule::compile(name, text.get_ref(), message)
        .map_err(|error| source.error_inside(field, text, error.line, error.problem))
}

fn golden_case(source: Source<'_>, field: &str, table: &GoldenTable, schema: &Schema) -> Result<Golden, ContractError> {
    let at = format!("{field}.input");
    let text = table.input.get_ref().trim();
    let input = Json::parse(text.as_bytes(), Json::DEEPEST).map_err(|error| {
        let begin = table.input.get_ref().len() - table.input.get_ref().trim_start().len();
        let line = line_of(table.input.get_ref(), begin + error.at);
        source.error_inside(&at, &table.input, line, error.problem.to_string())
    })?;
    schema
        .check(&input)
        .map_err(|problem| source.error_inside(&at, &table.input, 1, problem))?;
    let mut expect = Vec::new();
    for (index, text) in table.expect.iter().enumerate() {
        let message = format!("{} is not true", text.get_ref());
        expect.push(rule(
            source,
            &format!("{field}.expect[{index}]"),
            &format!("expect[{index}]"),
            text,
            &message,
        )?);
    }
    Ok(Golden {
        name: table.name.get_ref().clone(),
        input,
        text: text.to_owned(),
        expect,
    })
}

fn unique<'n>(
    source: Source<'_>,
    field: &str,
    name: &Spanned<String>,
    all: impl Iterator<Item = &'n Spanned<String>>,
) -> Result<(), ContractError> {
    if name.get_ref().trim().is_empty() {
        return Err(source.error(field, name.span(), "must not be empty: reports show it"));
    }
    let mut earlier = HashSet::new();
    for other in all.take_while(|other| other.span() != name.span()) {
        earlier.insert(other.get_ref());
    }
    if earlier.contains(name.get_ref()) {
        return Err(source.error(field, name.span(), "stands twice: reports tell them apart by it"));
    }
    Ok(())
}

/// A change of the form written here lapses every certificate, which is right only if it changes what a contract means.
fn digest(contract: &Contract, messages: &[MessageTable]) -> [u8; 32] {
    let rules = |rules: &[Rule]| {
        rules
            .iter()
            .map(|rule| [rule.name.clone(), rule.expression.clone()])
            .collect::<Vec<_>>()
    };
    let golden = contract.golden.iter().map(|case| {
        let mut input = String::new();
        // The input without its layout; a value that came from JSON can always be written as JSON.
        let input = write_json(&mut input, &value_of(&case.input)).map_or_else(|_| case.text.clone(), |()| input);
        serde_json::json!([case.name, input, rules(&case.expect)])
    });
    let content = serde_json::json!({
        "form": 1,
        "name": contract.name,
        "input": contract.input.text().get(),
        "output": contract.output.text().get(),
        "messages": messages.iter().map(|table| (table.role.get_ref(), table.template.get_ref())).collect::<Vec<_>>(),
        "rules": rules(&contract.rules),
        "sampling": contract.sampling,
        "max_output_tokens": contract.max_output_tokens,
        "nonce_field": contract.nonce_field,
        "golden": golden.collect::<Vec<_>>(),
    });
    Sha256::digest(content.to_string()).into()
}
