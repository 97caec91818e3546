//! Prompts: Jinja templates over `input`.
//!
//! What a client sent reaches the provider as it was written: nothing is escaped for HTML, strings are not normalised, and
//! a number that no machine number holds is shown in its own spelling (`12345678901234567890.10`). Such a number can be
//! shown but not computed with: a template that compares it gets nonsense, so limits belong into the input's schema.
//!
//! Hazards: a name that does not exist is an error, not an empty text (use `is defined` for what may be absent); the work
//! of one rendering is bounded ([`FUEL`]); a text of the input is data, and never read as a template.

use std::fmt;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Object, ObjectRepr, Value, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::brief;
use crate::domain::intent::{Json, Number};

/// The work that one message may cost: about one a step of a template and one a 64 bytes of text.
const FUEL: u64 = 1_000_000;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The instructions.
    System,
    /// What is asked.
    User,
    /// An answer that the prompt gives as an example.
    Assistant,
}

/// One message of a prompt, as providers take it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text.
    pub content: String,
}

/// How a model chooses its words.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sampling {
    /// 0 to 2; 0 unless the contract states another.
    pub temperature: f64,
    /// Above 0, up to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// For providers that know one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
}

/// Everything that a provider is asked, the same for all of them.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// In order; the first is the system message, the last the user's.
    pub messages: Vec<Message>,
    /// How to choose words.
    pub sampling: Sampling,
    /// The most tokens of an answer.
    pub max_output_tokens: u32,
    /// The closed output schema. It serialises to the same bytes in every request.
    pub response_schema: Arc<RawValue>,
    /// A name for it: letters, digits, `-` and `_`, at most 64 characters.
    pub schema_name: Arc<str>,
}

/// Why an input can't become a prompt. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("messages[{message}] of the contract cannot be rendered for this input: {problem}")]
pub struct RenderError {
    /// Which message, from 0.
    pub message: usize,
    /// What went wrong.
    pub problem: String,
}

/// What is wrong with a template, and in which line of it (from 1).
pub(super) struct TemplateError {
    pub message: usize,
    pub line: usize,
    pub problem: String,
}

/// The compiled messages of a contract.
pub(super) struct Templates {
    env: Environment<'static>,
    roles: Vec<Role>,
}

impl Templates {
    pub fn compile<'t>(messages: impl Iterator<Item = (Role, &'t str)>) -> Result<Self, TemplateError> {
        let mut env = Environment::new();
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_fuel(Some(FUEL));
        env.set_formatter(|out, _, value| Ok(out.write_str(&shown(value)?)?));
        env.add_filter("tojson", |value: &Value| {
            let mut out = String::new();
            write_json(&mut out, value)?;
            Ok::<_, minijinja::Error>(out)
        });
        // A block tag alone in its line leaves no line behind, which is what an author expects to see in a prompt.
        if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
            env.set_syntax(syntax);
        }
        let mut roles = Vec::new();
        for (index, (role, template)) in messages.enumerate() {
            let wrong = |line: usize, problem: String| TemplateError {
                message: index,
                line,
                problem,
            };
            env.add_template_owned(name_of(index), template.to_owned())
                .map_err(|error| wrong(error.line().unwrap_or(1), described(&error)))?;
            let unknown = env
                .get_template(&name_of(index))
                .map(|compiled| compiled.undeclared_variables(false));
            let known: Vec<&str> = env.globals().map(|(name, _)| name).chain(["input"]).collect();
            let unknown = unknown
                .unwrap_or_default()
                .into_iter()
                .find(|name| !known.contains(&name.as_str()));
            if let Some(unknown) = unknown {
                let line = template
                    .lines()
                    .position(|line| line.contains(&unknown))
                    .map_or(1, |line| line + 1);
                return Err(wrong(
                    line,
                    format!("there is no {unknown} in a template: everything is under input"),
                ));
            }
            roles.push(role);
        }
        Ok(Self { env, roles })
    }

    pub fn render(&self, input: &Json) -> Result<Vec<Message>, RenderError> {
        let context = Value::from_pairs([("input", value_of(input))]);
        let render = |(index, role): (usize, &Role)| {
            let content = self
                .env
                .get_template(&name_of(index))
                .and_then(|template| template.render(context.clone()))
                .map_err(|error| RenderError {
                    message: index,
                    problem: described(&error),
                })?;
            Ok(Message { role: *role, content })
        };
        self.roles.iter().enumerate().map(render).collect()
    }
}

fn name_of(index: usize) -> String {
    format!("messages[{index}]")
}

/// The engine's words, without the template's name, which the caller says.
fn described(error: &minijinja::Error) -> String {
    let line = error
        .line()
        .map(|line| format!(" (line {line} of the template)"))
        .unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let advice = if error.kind() == ErrorKind::UndefinedError {
        "; test what may be absent with `is defined`"
    } else if error.kind() == ErrorKind::OutOfFuel {
        "; the input is too large for what the template does with it"
    } else {
        ""
    };
    brief(&format!("{}{detail}{line}{advice}", error.kind()))
}

/// What `{{ value }}` gives: a text as it is, all else as JSON.
fn shown(value: &Value) -> Result<String, minijinja::Error> {
    // An `if` expression without `else` gives nothing, even where undefined names are errors.
    if value.is_undefined() {
        return Ok(String::new());
    }
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    write_json(&mut out, value)?;
    Ok(out)
}

/// A number that would be spelled otherwise if it were computed with.
#[derive(Debug)]
struct AsWritten(Number);

impl Object for AsWritten {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_written())
    }
}

/// A JSON value for templates.
pub(super) fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => number_of(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(value_of).collect::<Vec<_>>()),
        Json::Object(members) => Value::from_pairs(members.iter().map(|(name, value)| (name, value_of(value)))),
    }
}

fn number_of(number: &Number) -> Value {
    let text = number.as_written();
    let integer = text.parse::<i64>().ok().map(Value::from);
    let float = || text.parse::<f64>().ok().map(Value::from);
    integer
        .or_else(float)
        .filter(|value| value.to_string() == text)
        .unwrap_or_else(|| Value::from_object(AsWritten(number.clone())))
}

/// JSON with a space after `:` and `,`, the spelling that models have read most; names in the order they came.
pub(super) fn write_json(out: &mut String, value: &Value) -> Result<(), minijinja::Error> {
    let kind = value.kind();
    if value.is_none() {
        out.push_str("null");
    } else if kind == ValueKind::Bool {
        out.push_str(if value.is_true() { "true" } else { "false" });
    } else if kind == ValueKind::Number {
        out.push_str(&value.to_string());
    } else if let Some(text) = value.as_str() {
        out.push_str(&quoted(text));
    } else if let Some(AsWritten(number)) = value.downcast_object_ref() {
        out.push_str(number.as_written());
    } else if kind == ValueKind::Seq || kind == ValueKind::Iterable {
        out.push('[');
        for (index, item) in value.try_iter()?.enumerate() {
            out.push_str(if index > 0 { ", " } else { "" });
            write_json(out, &item)?;
        }
        out.push(']');
    } else if kind == ValueKind::Map {
        out.push('{');
        for (index, name) in value.try_iter()?.enumerate() {
            out.push_str(if index > 0 { ", " } else { "" });
            out.push_str(&quoted(&name.to_string()));
            out.push_str(": ");
            write_json(out, &value.get_item(&name)?)?;
        }
        out.push('}');
    } else if value.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    } else {
        let problem = format!("a {kind} cannot be written as JSON");
        return Err(minijinja::Error::new(ErrorKind::BadSerialization, problem));
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
