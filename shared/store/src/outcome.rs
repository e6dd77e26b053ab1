//! What a row can keep of a tool's answer.

use serde_json::Value;
use toshi_core::Outcome;

/// The table nests 32 levels, of which a step's row uses some.
const DEPTH_MAX: usize = 20;
/// The table's numbers end near 1e126 and 1e-130, a double's much later.
const NUMBERS: std::ops::RangeInclusive<f64> = 1e-120..=1e120;

/// The outcome without structure that no row can hold. A server chooses the shape of its answer: it
/// must not be able to make the answer unrecordable. The text says the same.
pub(crate) fn keepable(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Succeeded {
            text,
            structured: Some(structured),
            bytes,
        } if !fits(&structured, DEPTH_MAX) => Outcome::Succeeded {
            text,
            structured: None,
            bytes,
        },
        kept => kept,
    }
}

fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number
            .as_f64()
            .is_some_and(|number| number == 0.0 || NUMBERS.contains(&number.abs())),
        Value::Array(values) => depth > 0 && values.iter().all(|value| fits(value, depth - 1)),
        Value::Object(members) => {
            let named = |name: &str| !name.is_empty();
            depth > 0
                && members
                    .iter()
                    .all(|(name, value)| named(name) && fits(value, depth - 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structure_is_kept_unless_a_row_cannot_hold_it() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let rows = [
            (
                json!({ "list": [1, -2.5, 0.0, true, null, "x"], "max": u64::MAX }),
                true,
            ),
            (nested(DEPTH_MAX), true),
            (nested(DEPTH_MAX + 1), false),
            (json!({ "in": { "n": 1e121 } }), false),
            (json!([-1e300]), false),
            (json!([1e-121]), false),
            (json!({ "": 1 }), false),
        ];
        for (value, expected) in rows {
            assert_eq!(fits(&value, DEPTH_MAX), expected, "{value}");
        }
    }
}
