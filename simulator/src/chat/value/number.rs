//! Numbers within bounds, and the reading of bounds.

use serde_json::{Map, Number, Value};

use super::{Made, Place, Unmakeable};
use crate::chat::text;

/// A bound that is a count.
pub fn bound(schema: &Map<String, Value>, keyword: &str, place: &Place<'_>) -> Result<Option<usize>, Unmakeable> {
    let Some(value) = schema.get(keyword) else {
        return Ok(None);
    };
    let bound = value.as_u64().and_then(|bound| usize::try_from(bound).ok());
    bound
        .map(Some)
        .ok_or_else(|| place.err(format!("`{keyword}` must be a whole number from 0")))
}

/// A bound of a number.
fn limit(schema: &Map<String, Value>, keyword: &str, place: &Place<'_>) -> Result<Option<f64>, Unmakeable> {
    let Some(value) = schema.get(keyword) else {
        return Ok(None);
    };
    value
        .as_f64()
        .map(Some)
        .ok_or_else(|| place.err(format!("`{keyword}` must be a number")))
}

/// Whole numbers beyond this are not exact as JSON numbers everywhere.
const WHOLE: i64 = 1 << 53;

#[expect(clippy::cast_possible_truncation, reason = "clamped to what both types hold exactly")]
#[expect(clippy::cast_precision_loss, reason = "2^53 is exact")]
fn whole(value: f64) -> i64 {
    value.clamp(-(WHOLE as f64), WHOLE as f64) as i64
}

pub fn integer(schema: &Map<String, Value>, place: &Place<'_>) -> Made {
    let least = limit(schema, "minimum", place)?.map(|v| whole(v.ceil()));
    let above = limit(schema, "exclusiveMinimum", place)?.map(|v| whole(v.floor()) + 1);
    let most = limit(schema, "maximum", place)?.map(|v| whole(v.floor()));
    let below = limit(schema, "exclusiveMaximum", place)?.map(|v| whole(v.ceil()) - 1);
    let step = match limit(schema, "multipleOf", place)? {
        None => 1,
        Some(step) if step >= 1.0 && step.fract() == 0.0 => whole(step),
        Some(_) => return Err(place.err("`multipleOf` of an integer is covered for whole numbers from 1 only")),
    };
    let (low, high) = (least.max(above), most.into_iter().chain(below).min());
    let (low, high) = match (low, high) {
        (Some(low), Some(high)) => (low, high),
        (Some(low), None) => (low, low + 99 * step),
        (None, Some(high)) => (high - 99 * step, high),
        (None, None) => (1, 100 * step),
    };
    // In steps: the numbers n for which low ≤ n · step ≤ high.
    let (first, last) = (
        low.div_euclid(step) + i64::from(low.rem_euclid(step) != 0),
        high.div_euclid(step),
    );
    if first > last {
        return Err(place.err("its bounds leave no integer"));
    }
    let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
    let n = i64::try_from(text::pick(place.seed, count)).unwrap_or(0);
    Ok(Value::from((first + n) * step))
}

pub fn number(schema: &Map<String, Value>, place: &Place<'_>) -> Made {
    if schema.contains_key("multipleOf") {
        return integer(schema, place);
    }
    let (least, above) = (
        limit(schema, "minimum", place)?,
        limit(schema, "exclusiveMinimum", place)?,
    );
    let (most, below) = (
        limit(schema, "maximum", place)?,
        limit(schema, "exclusiveMaximum", place)?,
    );
    let low = least.into_iter().chain(above).reduce(f64::max);
    let high = most.into_iter().chain(below).reduce(f64::min);
    let low = low.unwrap_or_else(|| high.map_or(0.0, |high| high.min(0.0) - 100.0));
    let high = high.unwrap_or_else(|| low.max(0.0) + 100.0);
    let fits = |v: &f64| {
        least.is_none_or(|b| *v >= b)
            && above.is_none_or(|b| *v > b)
            && most.is_none_or(|b| *v <= b)
            && below.is_none_or(|b| *v < b)
    };
    let hundredths = u32::try_from(1 + text::pick(place.seed, 99)).unwrap_or(50);
    let inside = low + (high - low) * f64::from(hundredths) / 100.0;
    // Rounded if that still fits, for readers' sake.
    let made = [(inside * 100.0).round() / 100.0, inside, low, high]
        .into_iter()
        .find(fits)
        .and_then(Number::from_f64);
    made.map(Value::Number)
        .ok_or_else(|| place.err("its bounds leave no number"))
}
