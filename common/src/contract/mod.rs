//! Contracts: what a provider is asked, and what its answer must keep.
//!
//! ```text
//! contracts/ticket-triage@1.toml ── Contracts::load ──► Contract, compiled once, shared
//!
//! input ── check_input ──► render ──► Prompt ──► provider ──► bytes ── check_answer ──► CheckedAnswer │ Violation
//! ```
//!
//! One function, [`Contract::check_answer`], decides about every answer: live ones, those of a certification, and those
//! that an operator brings. It repairs and converts nothing: an answer that has to be guessed at is a violation, and its
//! bytes are kept by whoever has them. What a file may say is described in `docs/contracts.md`.
//!
//! Hazard: everything here is work for the processor, and grows with the size of input and answer. Above
//! [`BLOCKING_ABOVE`] bytes call it where it blocks nobody (`tokio::task::spawn_blocking`).

mod answer;
mod file;
mod load;
mod prompt;
mod rules;
mod schema;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

pub use answer::{CheckedAnswer, InputInvalid, Violation, ViolationKind};
pub use file::ContractError;
pub use prompt::{Message, Prompt, RenderError, Role, Sampling};

use crate::domain::ContractName;
use crate::domain::intent::Json;
use prompt::Templates;
use rules::Rule;
use schema::Schema;

/// The size of input and answer together, in bytes, above which checking and rendering belong off the async threads.
/// Below it they take well under a millisecond with rules that walk no lists within lists.
pub const BLOCKING_ABOVE: usize = 32 * 1024;

/// The contracts of a folder, by name and version.
#[derive(Debug, Clone)]
pub struct Contracts(BTreeMap<ContractName, Arc<Contract>>);

impl Contracts {
    /// Reads and compiles every `*.toml` of a folder; hidden files are left out.
    ///
    /// # Errors
    ///
    /// The first file that can't be read or is not a contract, with line and field; a folder without any.
    pub fn load(dir: &Path) -> Result<Self, ContractError> {
        load::folder(dir).map(Self)
    }

    /// The contract of that name and version.
    #[must_use]
    pub fn get(&self, name: &ContractName) -> Option<&Arc<Contract>> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Contract>> {
        self.0.values()
    }
}

/// One version of a contract, compiled.
pub struct Contract {
    name: ContractName,
    description: String,
    schema_name: Arc<str>,
    input: Schema,
    output: Schema,
    templates: Templates,
    rules: Vec<Rule>,
    sampling: Sampling,
    max_output_tokens: u32,
    nonce_field: String,
    golden: Vec<Golden>,
    digest: [u8; 32],
}

impl Contract {
    /// Reads a contract from the text of its file, which must be called `NAME@VERSION.toml`.
    ///
    /// # Errors
    ///
    /// What is wrong, with line and field.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ContractError> {
        load::contract(path, text)
    }

    /// Its name and version.
    #[must_use]
    pub const fn name(&self) -> &ContractName {
        &self.name
    }

    /// What it is for, for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The schema of its input, closed.
    #[must_use]
    pub const fn input_schema(&self) -> &Arc<RawValue> {
        self.input.text()
    }

    /// The schema of its output, closed: the bytes that every provider gets.
    #[must_use]
    pub const fn output_schema(&self) -> &Arc<RawValue> {
        self.output.text()
    }

    /// The text field of the output that shows whether the system message is obeyed.
    #[must_use]
    pub fn nonce_field(&self) -> &str {
        &self.nonce_field
    }

    /// Real inputs that a provider proves itself on.
    #[must_use]
    pub fn golden(&self) -> &[Golden] {
        &self.golden
    }

    /// SHA-256 of everything that decides what is asked and which answers are accepted, golden cases included.
    /// Comments, layout, the description and the rules' messages are not part of it.
    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Checks an input against the schema.
    ///
    /// # Errors
    ///
    /// A sentence with the place of each problem, the first five of them. It shows names of the input, not its values.
    pub fn check_input(&self, input: &Json) -> Result<(), InputInvalid> {
        self.input.check(input).map_err(InputInvalid)
    }

    /// The prompt for an input that [`check_input`](Self::check_input) accepted.
    ///
    /// # Errors
    ///
    /// A template that does not work for this input. Nothing was sent; the same input fails again.
    pub fn render(&self, input: &Json) -> Result<Prompt, RenderError> {
        Ok(Prompt {
            messages: self.templates.render(input)?,
            sampling: self.sampling,
            max_output_tokens: self.max_output_tokens,
            response_schema: Arc::clone(self.output.text()),
            schema_name: Arc::clone(&self.schema_name),
        })
    }

    /// The same prompt with a system message that asks for a word, to see whether system messages are obeyed at all.
    ///
    /// `nonce` is a word of letters and digits that nothing else in the prompt has.
    ///
    /// # Errors
    ///
    /// As [`render`](Self::render).
    pub fn render_with_nonce(&self, input: &Json, nonce: &str) -> Result<Prompt, RenderError> {
        let mut prompt = self.render(input)?;
        // Loading makes sure that the first message is the system's, and the only one of that role.
        if let Some(system) = prompt.messages.first_mut() {
            let field = &self.nonce_field;
            let ask = format!("\n\nBegin the value of \"{field}\" with the word {nonce}.");
            system.content.push_str(&ask);
        }
        Ok(prompt)
    }

    /// Whether the answer does what [`render_with_nonce`](Self::render_with_nonce) asked for.
    #[must_use]
    pub fn keeps_nonce(&self, answer: &CheckedAnswer, nonce: &str) -> bool {
        let text = answer.value().get(&self.nonce_field).and_then(Json::as_str);
        text.and_then(|text| text.strip_prefix(nonce))
            .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    }

    /// Checks an answer: strict JSON, then the schema, then the rules over input and output.
    ///
    /// # Errors
    ///
    /// The first of the three that it breaks, and how.
    pub fn check_answer(&self, input: &Json, raw: Bytes) -> Result<CheckedAnswer, Violation> {
        answer::check(self, input, raw)
    }

    /// Checks an answer to a golden case: as [`check_answer`](Self::check_answer), and then what the case expects.
    ///
    /// # Errors
    ///
    /// As [`check_answer`](Self::check_answer); an expectation that does not hold is a [`ViolationKind::Rule`].
    pub fn check_golden(&self, case: &Golden, raw: Bytes) -> Result<CheckedAnswer, Violation> {
        let answer = self.check_answer(&case.input, raw)?;
        match rules::broken(&case.expect, &case.input, answer.value()) {
            None => Ok(answer),
            Some(sentence) => Err(Violation {
                kind: ViolationKind::Rule,
                sentence: format!("golden case {}: {sentence}", case.name),
            }),
        }
    }
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Contract");
        shown
            .field("name", &self.name)
            .field("digest", &hex::encode(self.digest));
        shown.finish_non_exhaustive()
    }
}

/// A real input, with what is known about its answer.
pub struct Golden {
    name: String,
    input: Json,
    text: String,
    expect: Vec<Rule>,
}

impl Golden {
    /// Its name within the contract.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The input.
    #[must_use]
    pub const fn input(&self) -> &Json {
        &self.input
    }

    /// The input as JSON text, to store as a job's input.
    #[must_use]
    pub fn input_text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Golden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Golden")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The beginning of a sentence that holds names from outside: they can be as long as the input.
fn brief(text: &str) -> String {
    const KEPT: usize = 300;
    let mut kept: String = text.chars().take(KEPT).flat_map(visible).collect();
    if text.chars().nth(KEPT).is_some() {
        kept.push('…');
    }
    kept
}

/// A control or direction character as its escape, so that a name can't forge a line of a log.
fn visible(character: char) -> impl Iterator<Item = char> {
    let hidden = character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let escaped = hidden.then(|| character.escape_unicode());
    escaped.into_iter().flatten().chain((!hidden).then_some(character))
}

#[cfg(test)]
mod tests;
