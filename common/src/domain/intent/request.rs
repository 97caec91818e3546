//! The body of `POST /v1/jobs` as an intent.

use crate::domain::{ContractName, Policy, ProviderName};

use super::canonical::{Digest, Framed};
use super::{BodyError, Fields, IntentError, Json, policy};

/// Everything that changes what is executed. The owner and the idempotency key say whose it is, not what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The contract that answers are held to.
    pub contract: ContractName,
    /// The provider that the first attempt goes to.
    pub provider: ProviderName,
    /// What is asked.
    pub input: RawInput,
    /// What may be tried.
    pub policy: Policy,
}

/// The input: the text that was accepted, which is what is stored and sent, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawInput {
    text: String,
    value: Json,
}

impl RawInput {
    /// The bytes that were accepted, without the white space around them.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value, to check against the contract.
    #[must_use]
    pub const fn value(&self) -> &Json {
        &self.value
    }
}

impl Intent {
    /// Reads the body of a request; `max_depth` counts the body's own object, as in [`Json::parse`].
    ///
    /// Whether contract and provider exist is not known here: a valid name may still be unknown.
    ///
    /// # Errors
    ///
    /// [`IntentError::Malformed`] wherever the body itself is wrong; a name that nothing can have only if all else is
    /// right.
    pub fn parse(body: &[u8], max_depth: usize) -> Result<Self, IntentError> {
        let mut fields = Fields::parse(body, max_depth)?;
        let contract = fields.take_str("contract")?;
        let provider = fields.take_str("provider")?;
        let input = fields.take_raw("input");
        let policy = match fields.take_raw("policy") {
            None => None,
            Some(field) if matches!(field.value, Json::Object(_)) => {
                Some(Fields::within("policy.", &field.text, max_depth)?)
            }
            Some(field) => {
                return Err(IntentError::Malformed(BodyError::WrongType {
                    path: "policy".to_owned(),
                    wanted: "an object",
                    found: field.value.what(),
                }));
            }
        };
        if fields.contains("webhook_url") {
            return Err(IntentError::Malformed(BodyError::NotSupportedYet("webhook_url")));
        }
        fields.finish()?;
        let contract = contract.ok_or(BodyError::Missing("contract"))?;
        let provider = provider.ok_or(BodyError::Missing("provider"))?;
        let input = input.ok_or(BodyError::Missing("input"))?;
        let policy = policy::parse(policy, &provider)?;
        Ok(Self {
            contract: contract.parse().map_err(|_| IntentError::UnknownContract(contract))?,
            provider: provider.parse().map_err(|_| IntentError::UnknownProvider(provider))?,
            input: RawInput {
                text: input.text,
                value: input.value,
            },
            policy,
        })
    }

    /// What intents are compared by: equal exactly when they ask for the same (design §4).
    #[must_use]
    pub fn digest(&self) -> Digest {
        // Taken apart in full, so that a new field cannot be left out unseen. One that is optional must not be framed
        // when it is absent: the digests of older jobs would change.
        let Self {
            contract,
            provider,
            input,
            policy,
        } = self;
        Framed::new("onejob intent 1")
            .field("contract", contract.as_str())
            .field("provider", provider.as_str())
            .field("input", &input.value.canonical())
            .field("policy", &policy::digested(policy).canonical())
            .finish()
    }
}
