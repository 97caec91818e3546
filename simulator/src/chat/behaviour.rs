//! What can be scripted for one chat completion. The manual (`help/manual.txt`) says what each field does.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::behaviour::{BadField, DropAt, Fields};

/// The default is to answer at once.
#[derive(Debug, Default)]
pub struct Behaviour {
    pub delay: Duration,
    pub first_event_delay: Duration,
    pub status: Option<StatusCode>,
    pub headers: HeaderMap,
    pub body: Option<String>,
    pub content: Option<String>,
    pub model: Option<String>,
    pub finish_reason: Option<String>,
    pub usage: Option<Value>,
    pub hang: bool,
    pub drop: Option<DropAt>,
}

impl Behaviour {
    pub fn read(mut fields: Fields) -> Result<Self, BadField> {
        let behaviour = Self {
            delay: fields.millis("delay_ms")?.unwrap_or_default(),
            first_event_delay: fields.millis("first_event_delay_ms")?.unwrap_or_default(),
            status: fields.status("status")?,
            headers: fields.headers("headers")?,
            body: fields.text("body")?,
            content: fields.text("content")?,
            model: fields.text("model")?,
            finish_reason: fields.text("finish_reason")?,
            usage: fields.take("usage", "an object", |value| Some(value).filter(Value::is_object))?,
            hang: fields.flag("hang")?,
            drop: fields.drop_at("drop")?,
        };
        fields.finish()?;
        Ok(behaviour)
    }
}
