//! Rules: CEL expressions over `input` and `output` that must be true of an answer.
//!
//! The expressions come from trusted files, what they are evaluated on does not. So every error of an evaluation is a
//! broken rule, a panic of the evaluator too. CEL has no loops, but `all` and `exists` within one another take time that
//! grows with the product of both lists: bound such lists in the schema (`maxItems`), and see [`BLOCKING_ABOVE`].
//!
//! [`BLOCKING_ABOVE`]: super::BLOCKING_ABOVE

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr};
use cel::{Context, Env, IdedExpr, Program, Value};

use super::brief;
use super::schema::checked_number;
use crate::domain::intent::Json;

/// The standard library and CEL's extension for strings (`trim`, `split`…): with `matches` alone every look at a text would
/// be a regular expression, which the evaluator compiles anew for each answer.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // It fails only if the library itself declares a name twice; rules that need it are then refused when loading.
    let added = env.add_extension(cel::extensions::strings);
    Arc::new(if added.is_ok() { env } else { Env::stdlib() })
});

/// The names of CEL's types, which expressions may compare `type(x)` with.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// A compiled rule.
pub(super) struct Rule {
    pub name: String,
    pub expression: String,
    pub message: String,
    program: Program,
    reads_input: bool,
}

/// What is wrong with an expression, and in which line of it (from 1).
pub(super) struct RuleError {
    pub line: usize,
    pub problem: String,
}

impl Rule {
    pub fn compile(name: &str, expression: &str, message: &str) -> Result<Self, RuleError> {
        let program = ENV.compile(expression).map_err(|errors| {
            let first = errors.errors.first();
            RuleError {
                line: first
                    .and_then(|error| usize::try_from(error.pos.0).ok())
                    .unwrap_or(1)
                    .max(1),
                problem: first.map_or_else(
                    || "it is not CEL".into(),
                    |error| format!("this is not CEL: {}", error.msg),
                ),
            }
        })?;
        let mut bound = Vec::new();
        bound_names(program.expression(), &mut bound);
        let at = |word: &str| {
            expression
                .lines()
                .position(|line| line.contains(word))
                .map_or(1, |line| line + 1)
        };
        let references = program.references();
        let known = |name: &&str| ["input", "output"].contains(name) || TYPES.contains(name) || bound.contains(name);
        if let Some(unknown) = references.variables().into_iter().find(|name| !known(name)) {
            let problem = format!("there is no {unknown} in a rule: it may speak of input and output");
            return Err(RuleError {
                line: at(unknown),
                problem,
            });
        }
        if let Some(unknown) = references.functions().into_iter().find(|name| !is_function(name)) {
            return Err(RuleError {
                line: at(unknown),
                problem: format!("CEL has no function {unknown}"),
            });
        }
        let reads_input = references.has_variable("input");
        Ok(Self {
            name: name.into(),
            expression: expression.into(),
            message: message.into(),
            program,
            reads_input,
        })
    }
}

/// The first rule that does not hold, as a sentence.
pub(super) fn broken(rules: &[Rule], input: &Json, output: &Json) -> Option<String> {
    if rules.is_empty() {
        return None;
    }
    let evaluate = || {
        let mut context = Context::with_env(Arc::clone(&ENV));
        if rules.iter().any(|rule| rule.reads_input) {
            context.add_variable_from_value("input", value_of(input));
        }
        context.add_variable_from_value("output", value_of(output));
        rules.iter().find_map(|rule| {
            let problem = match rule.program.execute(&context) {
                Ok(Value::Bool(true)) => return None,
                Ok(Value::Bool(false)) => rule.message.clone(),
                Ok(other) => format!("it could not be evaluated: it gives {}, not a boolean", other.type_of()),
                Err(error) => format!("it could not be evaluated: {}", described(&error)),
            };
            Some(brief(&format!("the rule {} does not hold: {problem}", rule.name)))
        })
    };
    // The context is dropped within, so nothing half-changed is seen after a panic.
    catch_unwind(AssertUnwindSafe(evaluate))
        .unwrap_or_else(|_| Some("a rule could not be evaluated: the evaluator failed on this answer".into()))
}

/// The evaluator's words where they hold no value of the input or answer: these are not for logs.
fn described(error: &cel::ExecutionError) -> String {
    use cel::ExecutionError as E;
    if matches!(
        error,
        E::NoSuchKey(_) | E::NoSuchOverload(_) | E::UndeclaredReference(_)
    ) {
        return error.to_string();
    }
    "a value does not fit an operator or a function (type, overflow, division by zero, or index)".into()
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => {
            let number = checked_number(number);
            // A whole number that fits is an int whatever its sign, so that rules need no `u` suffix.
            match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(int), _, _) => Value::Int(int),
                (None, Some(uint), _) => Value::UInt(uint),
                (None, None, float) => Value::Float(float.unwrap_or(f64::MAX)),
            }
        }
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(value_of).collect())),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.to_owned(), value_of(value)));
            Value::from(members.collect::<std::collections::HashMap<String, Value>>())
        }
    }
}

/// Whether the standard library has it: called without arguments, an unknown name is an undeclared reference.
fn is_function(name: &str) -> bool {
    let known = |call: String| {
        ENV.compile(&call).is_ok_and(|program| {
            let ended = program.execute(&Context::with_env(Arc::clone(&ENV)));
            !matches!(ended, Err(cel::ExecutionError::UndeclaredReference(_)))
        })
    };
    // Operators have names such as `_+_` and `@in`.
    !name.starts_with(|first: char| first.is_ascii_alphabetic())
        || known(format!("{name}()"))
        || known(format!("''.{name}()"))
}

/// The names that macros such as `all` bind.
fn bound_names<'e>(expression: &'e IdedExpr, names: &mut Vec<&'e str>) {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Call(call) => {
            call.target.iter().for_each(|target| bound_names(target, names));
            call.args.iter().for_each(|arg| bound_names(arg, names));
        }
        Expr::Comprehension(comprehension) => {
            names.push(&comprehension.iter_var);
            names.push(&comprehension.accu_var);
            names.extend(comprehension.iter_var2.as_deref());
            let parts = [
                &comprehension.iter_range,
                &comprehension.accu_init,
                &comprehension.loop_cond,
                &comprehension.loop_step,
                &comprehension.result,
            ];
            parts.into_iter().for_each(|part| bound_names(part, names));
        }
        Expr::List(list) => list.elements.iter().for_each(|element| bound_names(element, names)),
        Expr::Map(map) => map.entries.iter().for_each(|entry| entry_names(&entry.expr, names)),
        Expr::Struct(value) => value.entries.iter().for_each(|entry| entry_names(&entry.expr, names)),
        Expr::Select(select) => bound_names(&select.operand, names),
    }
}

fn entry_names<'e>(entry: &'e EntryExpr, names: &mut Vec<&'e str>) {
    match entry {
        EntryExpr::StructField(field) => bound_names(&field.value, names),
        EntryExpr::MapEntry(entry) => {
            bound_names(&entry.key, names);
            bound_names(&entry.value, names);
        }
    }
}
