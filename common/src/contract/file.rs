//! A contract file as TOML, and the way from a value in it back to its line.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::prompt::Role;

/// Why contracts can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// The folder or a file in it can't be read.
    #[error("cannot read {path}: {source}; [contracts] dir of the configuration names the folder")]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder has no contract.
    #[error("{dir} has no contract: put a file such as ticket-triage@1.toml there")]
    Empty {
        /// The folder.
        dir: PathBuf,
    },
    /// A file is not a contract.
    #[error("{path}, line {line}, {field}: {problem}")]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The field, as `messages[1].template`.
        field: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// `[input]` and `[output]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchemaTable {
    pub schema: Spanned<String>,
}

/// `[sampling]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SamplingTable {
    pub temperature: Option<Spanned<f64>>,
    pub top_p: Option<Spanned<f64>>,
    pub seed: Option<u32>,
}

/// `[[messages]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageTable {
    pub role: Spanned<Role>,
    pub template: Spanned<String>,
}

/// `[[rules]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleTable {
    pub name: Spanned<String>,
    pub rule: Spanned<String>,
    pub message: String,
}

/// `[[golden]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoldenTable {
    pub name: Spanned<String>,
    pub input: Spanned<String>,
    #[serde(default)]
    pub expect: Vec<Spanned<String>>,
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: Spanned<String>,
    pub version: Spanned<u32>,
    #[serde(default)]
    pub description: String,
    pub max_output_tokens: Spanned<u32>,
    pub nonce_field: Spanned<String>,
    pub input: SchemaTable,
    pub output: SchemaTable,
    #[serde(default)]
    pub sampling: SamplingTable,
    pub messages: Spanned<Vec<MessageTable>>,
    #[serde(default)]
    pub rules: Vec<RuleTable>,
    #[serde(default)]
    pub golden: Vec<GoldenTable>,
}

/// The text of a file, to say where something stands in it.
#[derive(Clone, Copy)]
pub(super) struct Source<'t> {
    pub path: &'t Path,
    pub text: &'t str,
}

impl Source<'_> {
    pub fn read(self) -> Result<File, ContractError> {
        toml::from_str(self.text).map_err(|error| {
            // The message names the field; a missing one has no place but its table's.
            let line = self.line(error.span().map_or(0, |span| span.start));
            self.invalid(line, "TOML", error.message())
        })
    }

    /// An error of a whole value.
    pub fn error(self, field: impl Into<String>, span: Range<usize>, problem: impl Into<String>) -> ContractError {
        self.invalid(self.line(span.start), field, problem)
    }

    /// An error in the `inner`th line (from 1) of a text that may span several lines.
    pub fn error_inside(
        self,
        field: impl Into<String>,
        text: &Spanned<String>,
        inner: usize,
        problem: impl Into<String>,
    ) -> ContractError {
        let span = text.span();
        let raw = self.text.get(span.clone()).unwrap_or_default();
        // TOML drops the line break that follows the opening quotes.
        let content = raw.trim_start_matches(['\'', '"']);
        let dropped = usize::from(content.starts_with('\n') || content.starts_with("\r\n"));
        let line = self.line(span.start) + dropped + inner.saturating_sub(1);
        self.invalid(line, field, problem)
    }

    /// An error of the file as a whole.
    pub fn error_of_file(self, problem: impl Into<String>) -> ContractError {
        self.invalid(1, "the file", problem)
    }

    fn invalid(self, line: usize, field: impl Into<String>, problem: impl Into<String>) -> ContractError {
        ContractError::Invalid {
            path: self.path.into(),
            line,
            field: field.into(),
            problem: problem.into(),
        }
    }

    fn line(self, at: usize) -> usize {
        line_of(self.text, at)
    }
}

/// The line (from 1) in which a byte of a text stands.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
