//! Reading a chat request: first only what is needed to log and script it, then what is needed to answer it.

use serde::Deserialize;
use serde_json::Value;

use super::text::{self, Instruction};
use super::value::{self, Schema};

/// What can be seen of any body, however broken: its model, and whether a stream is wanted.
pub struct Seen {
    pub model: Option<String>,
    pub stream: bool,
}

impl Seen {
    pub fn of(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Head {
            model: Option<Value>,
            stream: Option<Value>,
        }
        let head = serde_json::from_slice(body).unwrap_or(Head {
            model: None,
            stream: None,
        });
        Self {
            model: head.model.and_then(crate::behaviour::text),
            stream: head.stream.is_some_and(|stream| stream == Value::Bool(true)),
        }
    }
}

/// Why a request is answered with 400.
#[derive(Debug)]
pub struct Refusal {
    pub param: Option<&'static str>,
    pub message: String,
}

fn refuse(param: &'static str, message: impl Into<String>) -> Refusal {
    Refusal {
        param: Some(param),
        message: message.into(),
    }
}

/// One message, its content as plain text.
pub struct Message {
    pub role: String,
    pub text: String,
}

enum Form {
    Text,
    Object,
    Schema(Value),
}

/// A request that can be answered.
pub struct Ask {
    pub model: String,
    pub stream: bool,
    pub include_usage: bool,
    pub messages: Vec<Message>,
    form: Form,
}

impl Ask {
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        let mut body: Value = serde_json::from_slice(body).map_err(|error| Refusal {
            param: None,
            message: format!("the body is not JSON: {error}"),
        })?;
        let model = body["model"].as_str().filter(|model| !model.is_empty());
        let model = model
            .ok_or_else(|| refuse("model", "model must be a string that is not empty"))?
            .to_owned();
        let stream = match body["stream"] {
            Value::Null => false,
            Value::Bool(stream) => stream,
            Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                return Err(refuse("stream", "stream must be true or false"));
            }
        };
        let messages = body["messages"].as_array().filter(|messages| !messages.is_empty());
        let messages = messages.ok_or_else(|| refuse("messages", "messages must be an array that is not empty"))?;
        let messages = messages.iter().map(message).collect::<Option<_>>();
        let messages = messages.ok_or_else(|| refuse("messages", "each message must be an object with a role"))?;
        Ok(Self {
            model,
            stream,
            include_usage: body["stream_options"]["include_usage"] == Value::Bool(true),
            messages,
            form: form(body["response_format"].take())?,
        })
    }

    /// The content of the answer, when none is scripted.
    pub fn content(&self) -> Result<String, Refusal> {
        let seed = text::seed(&self.messages);
        let instruction = text::instruction(&self.messages);
        match &self.form {
            Form::Text => Ok(format!("Simulated answer: {}.", text::words(seed, 24))),
            Form::Object => Ok(value::object(seed, instruction.as_ref()).to_string()),
            Form::Schema(schema) => self.value(schema, seed, instruction.as_ref()),
        }
    }

    fn value(&self, schema: &Value, seed: u64, instruction: Option<&Instruction>) -> Result<String, Refusal> {
        let made = Schema::new(schema).value(seed, instruction);
        made.map(|value| value.to_string()).map_err(|unmakeable| {
            let model = &self.model;
            let message =
                format!("{unmakeable}; queue a behaviour with `content` for {model} at PUT /_sim/next instead");
            refuse("response_format", message)
        })
    }
}

fn message(value: &Value) -> Option<Message> {
    let role = value.get("role")?.as_str()?.to_owned();
    let text = match &value["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    };
    Some(Message { role, text })
}

fn form(mut format: Value) -> Result<Form, Refusal> {
    if format.is_null() {
        return Ok(Form::Text);
    }
    match format["type"].as_str() {
        Some("text") => Ok(Form::Text),
        Some("json_object") => Ok(Form::Object),
        Some("json_schema") => {
            // Without IndexMut, which panics when json_schema is no object.
            match format
                .get_mut("json_schema")
                .and_then(|named| named.get_mut("schema"))
                .map(Value::take)
            {
                Some(schema) => Ok(Form::Schema(schema)),
                None => Err(refuse(
                    "response_format",
                    "response_format.json_schema.schema is missing",
                )),
            }
        }
        Some(_) | None => Err(refuse(
            "response_format",
            "response_format.type must be text, json_object or json_schema",
        )),
    }
}
