//! Numbers by their exact decimal value.
//!
//! A float would make 2^53 and 2^53 + 1 one number, and so two intents one. So the text is kept as it was written, and
//! compared as digits and an exponent. The limits on both bound the work that a short text such as `1e999999999` can ask
//! of whoever computes with it later.

use std::fmt;

use super::JsonProblem;

/// A JSON number: its text as it was written, compared by its exact decimal value.
#[derive(Clone)]
pub struct Number {
    /// Valid by JSON's grammar and within the limits.
    text: Box<str>,
}

/// A value in the one form that equal numbers share: ± digits × 10^exponent.
#[derive(PartialEq, Eq)]
struct Parts {
    negative: bool,
    /// Without zeros at either end; empty for zero, whose sign and exponent are then none and 0.
    digits: String,
    exponent: i32,
}

impl Number {
    /// The most digits that a number may be written with, its exponent not counted.
    pub const MOST_DIGITS: usize = 1_000;
    /// The largest exponent that may be written, and as a negative one the smallest.
    pub const LARGEST_EXPONENT: i32 = 10_000;

    /// Takes a text that is a number by JSON's grammar; refuses one that is beyond the limits.
    pub(super) fn within_limits(text: &str) -> Result<Self, JsonProblem> {
        let (mantissa, exponent) = split(text);
        if mantissa.bytes().filter(u8::is_ascii_digit).count() > Self::MOST_DIGITS {
            return Err(JsonProblem::TooManyDigits);
        }
        // An exponent may be written with any number of leading zeros: they are cut before it is parsed.
        let size = exponent.trim_start_matches(['+', '-']).trim_start_matches('0');
        if size.len() > 5 || size.parse().unwrap_or(0) > Self::LARGEST_EXPONENT {
            return Err(JsonProblem::ExponentTooLarge);
        }
        Ok(Self { text: text.into() })
    }

    /// The number as it was written.
    #[must_use]
    pub fn as_written(&self) -> &str {
        &self.text
    }

    /// The value, where it is a whole number that a `u64` holds, however it is spelled (`2`, `2.0`, `20e-1`).
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        let Parts {
            negative,
            digits,
            exponent,
        } = self.parts();
        if digits.is_empty() {
            return Some(0);
        }
        let zeros = u32::try_from(exponent).ok()?;
        if negative {
            return None;
        }
        digits.parse::<u64>().ok()?.checked_mul(10u64.checked_pow(zeros)?)
    }

    fn parts(&self) -> Parts {
        let (mantissa, exponent) = split(&self.text);
        let (whole, fraction) = mantissa
            .trim_start_matches('-')
            .split_once('.')
            .unwrap_or((mantissa.trim_start_matches('-'), ""));
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Parts {
                negative: false,
                digits: String::new(),
                exponent: 0,
            };
        }
        // The limits keep both lengths under 1,001 and the exponent within ±10,000, so nothing here can overflow.
        let count = |length: usize| i32::try_from(length).unwrap_or(i32::MAX);
        let written = exponent.parse().unwrap_or(0);
        Parts {
            negative: mantissa.starts_with('-'),
            digits: significant.to_owned(),
            exponent: written - count(fraction.len()) + count(digits.len() - significant.len()),
        }
    }
}

/// The text before and after the `e`; the exponent is empty where there is none.
fn split(text: &str) -> (&str, &str) {
    text.split_once(['e', 'E']).unwrap_or((text, ""))
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self {
            text: value.to_string().into(),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text || self.parts() == other.parts()
    }
}

impl Eq for Number {}

/// The canonical form: the significant digits as a whole number, and an exponent where it is not 0: `-125e-2`, `1e2`, `0`.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Most numbers are small whole ones, written so already; a body can hold half a million of them.
        if self.text.bytes().all(|byte| byte.is_ascii_digit()) && !self.text.ends_with('0') {
            return f.write_str(&self.text);
        }
        let Parts {
            negative,
            digits,
            exponent,
        } = self.parts();
        if digits.is_empty() {
            return f.write_str("0");
        }
        let sign = if negative { "-" } else { "" };
        write!(f, "{sign}{digits}")?;
        if exponent == 0 {
            Ok(())
        } else {
            write!(f, "e{exponent}")
        }
    }
}

/// As it was written, so that a failing test shows what was compared.
impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
