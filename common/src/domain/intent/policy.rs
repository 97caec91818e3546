//! The policy of an intent: how it is read from a request, and what of it is digested.

use crate::domain::{Policy, ProviderName};

use super::{BodyError, Fields, IntentError, Json, Members, Number};

/// Reads a policy, filling in the defaults that the API's version fixes. Without a text every field is absent.
///
/// `null` is refused: it could be meant as "the default" or as "no policy".
pub(super) fn parse(fields: Option<Fields>, own: &str) -> Result<Policy, IntentError> {
    let Some(mut fields) = fields else {
        return Ok(Policy::default());
    };
    let max_attempts = fields.take_integer("max_attempts", 1, Policy::MOST_ATTEMPTS.into())?;
    let timeout_ms = fields.take_integer("timeout_ms", 1, Policy::LONGEST_CALL_MS)?;
    let deadline_ms = fields.take_integer("deadline_ms", 1, Policy::LONGEST_DEADLINE_MS)?;
    let fallback = fields.take_strings("fallback")?.unwrap_or_default();
    let hedge_after_ms = fields.take_integer("hedge_after_ms", 1, Policy::LONGEST_CALL_MS)?;
    fields.finish()?;
    Ok(Policy {
        max_attempts: max_attempts
            .and_then(|number| u16::try_from(number).ok())
            .unwrap_or(Policy::DEFAULT_MAX_ATTEMPTS),
        timeout_ms,
        deadline_ms,
        fallback: fallback_names(fallback, own)?,
        hedge_after_ms,
    })
}

fn fallback_names(texts: Vec<String>, own: &str) -> Result<Vec<ProviderName>, IntentError> {
    if texts.len() > Policy::MOST_FALLBACKS {
        return Err(IntentError::Malformed(BodyError::TooMany {
            path: "policy.fallback".to_owned(),
            found: texts.len(),
            most: Policy::MOST_FALLBACKS,
        }));
    }
    let mut names: Vec<ProviderName> = Vec::new();
    for (index, text) in texts.into_iter().enumerate() {
        let Ok(name) = text.parse::<ProviderName>() else {
            return Err(IntentError::UnknownProvider(text));
        };
        let why = if text == own {
            "which is the provider that the job begins with"
        } else if names.contains(&name) {
            "which stands before it"
        } else {
            names.push(name);
            continue;
        };
        return Err(IntentError::Malformed(BodyError::UselessFallback {
            path: format!("policy.fallback[{index}]"),
            provider: text,
            why,
        }));
    }
    Ok(names)
}

/// What of a policy is digested: its defaults filled in, what is absent left out.
pub(super) fn digested(policy: &Policy) -> Json {
    // Taken apart in full, so that a new field of `Policy` cannot be left out of the digest unseen.
    let Policy {
        max_attempts,
        timeout_ms,
        deadline_ms,
        fallback,
        hedge_after_ms,
    } = policy;
    let names = fallback.iter().map(|name| Json::String(name.as_str().to_owned()));
    let fields = [
        (
            "max_attempts",
            Some(Json::Number(Number::from(u64::from(*max_attempts)))),
        ),
        ("timeout_ms", timeout_ms.map(|number| Json::Number(number.into()))),
        ("deadline_ms", deadline_ms.map(|number| Json::Number(number.into()))),
        ("fallback", Some(Json::Array(names.collect()))),
        (
            "hedge_after_ms",
            hedge_after_ms.map(|number| Json::Number(number.into())),
        ),
    ];
    let present = fields
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
    Json::Object(Members::of_distinct(present.collect()))
}
