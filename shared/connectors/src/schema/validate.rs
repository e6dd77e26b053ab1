//! Arguments against a tool's own schema, with a sentence about the first thing that is wrong.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

/// Enough for any honest pattern; a server's pattern must not keep us busy.
const BACKTRACKS_MAX: usize = 100_000;
/// A compiled pattern, in bytes.
const PATTERN_MAX: usize = 1024 * 1024;
const SENTENCE_MAX: usize = 300;

/// Whether the arguments fit. The sentence names the field and is fit for a person and for a model.
///
/// A schema that cannot be used refuses everything. Nothing is ever fetched.
pub fn validate(arguments: &Value, schema: &Map<String, Value>) -> Result<(), String> {
    let validator = built(schema)
        .ok_or_else(|| "The tool's schema cannot be used to check the arguments.".to_owned())?;
    validator
        .validate(arguments)
        .map_err(|error| sentence(&error))
}

/// `None` if the schema is no schema, or refers to what is not in it. One that does not name its
/// dialect and is none in the latest may be one in an older: many servers write those.
pub(super) fn built(schema: &Map<String, Value>) -> Option<Validator> {
    let options = || {
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS_MAX)
            .size_limit(PATTERN_MAX);
        jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
    };
    let value = Value::Object(schema.clone());
    if let Ok(validator) = options().build(&value) {
        return Some(validator);
    }
    let named = schema.contains_key("$schema");
    let older = [Draft::Draft7, Draft::Draft4];
    let mut older = older.into_iter().filter(|_| !named);
    older.find_map(|draft| options().with_draft(draft).build(&value).ok())
}

fn sentence(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let field = path.trim_start_matches('/').replace('/', ".");
    let subject = match field.as_str() {
        "" => "The arguments".to_owned(),
        field => format!("\"{field}\""),
    };
    let sentence = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            match field.as_str() {
                "" => format!("\"{name}\" is missing."),
                field => format!("\"{name}\" is missing in \"{field}\"."),
            }
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("{subject} may not have {}.", quoted(unexpected))
        }
        ValidationErrorKind::Type {
            kind: TypeKind::Single(kind),
        } => {
            format!("{subject} must be of type {kind}.")
        }
        ValidationErrorKind::Type {
            kind: TypeKind::Multiple(kinds),
        } => {
            let kinds: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
            format!("{subject} must be of type {}.", kinds.join(" or "))
        }
        ValidationErrorKind::Enum { options } => format!("{subject} must be one of {options}."),
        ValidationErrorKind::Constant { expected_value } => {
            format!("{subject} must be {expected_value}.")
        }
        ValidationErrorKind::MinLength { limit } => {
            format!("{subject} must have at least {limit} characters.")
        }
        ValidationErrorKind::MaxLength { limit } => {
            format!("{subject} must have at most {limit} characters.")
        }
        ValidationErrorKind::MinItems { limit } => {
            format!("{subject} must have at least {limit} items.")
        }
        ValidationErrorKind::MaxItems { limit } => {
            format!("{subject} must have at most {limit} items.")
        }
        ValidationErrorKind::Minimum { limit } => format!("{subject} must be at least {limit}."),
        ValidationErrorKind::Maximum { limit } => format!("{subject} must be at most {limit}."),
        ValidationErrorKind::Format { format } => format!("{subject} must be a {format}."),
        ValidationErrorKind::Pattern { pattern } => {
            format!("{subject} must match the pattern {pattern}.")
        }
        other => format!(
            "{subject} does not fit the rule {:?} of the tool.",
            other.keyword()
        ),
    };
    match sentence.char_indices().nth(SENTENCE_MAX) {
        Some((end, _)) => format!("{}…", sentence.get(..end).unwrap_or_default()),
        None => sentence,
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(arguments: Value, schema: Value) -> Result<(), String> {
        validate(&arguments, schema.as_object().unwrap())
    }

    fn message() -> Value {
        json!({
            "type": "object",
            "properties": {
                "channel": {"type": "string", "enum": ["#general", "#staff"]},
                "text": {"type": "string", "minLength": 1, "maxLength": 10},
                "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 5},
                "to": {"type": "array", "maxItems": 1, "items": {
                    "type": "object", "required": ["id"], "properties": {"id": {"pattern": "^U"}}
                }}
            },
            "required": ["channel", "text"],
            "additionalProperties": false
        })
    }

    #[test]
    fn what_is_wrong_is_said_in_a_sentence_that_names_the_field() {
        let base = |extra: Value| {
            let mut arguments = json!({"channel": "#staff", "text": "hi"});
            arguments
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            check(arguments, message())
        };
        assert_eq!(base(json!({})), Ok(()));
        let rows = [
            (json!({"text": 5}), "\"text\" must be of type string."),
            (
                json!({"text": ""}),
                "\"text\" must have at least 1 characters.",
            ),
            (
                json!({"text": "much too long"}),
                "\"text\" must have at most 10 characters.",
            ),
            (
                json!({"channel": "#x"}),
                "\"channel\" must be one of [\"#general\",\"#staff\"].",
            ),
            (json!({"limit": 9}), "\"limit\" must be at most 5."),
            (json!({"limit": 0}), "\"limit\" must be at least 1."),
            (json!({"cc": 1}), "The arguments may not have \"cc\"."),
            (json!({"to": [{}]}), "\"id\" is missing in \"to.0\"."),
            (
                json!({"to": [{"id": "X"}]}),
                "\"to.0.id\" must match the pattern ^U.",
            ),
            (json!({"to": [1, 2]}), "\"to\" must have at most 1 items."),
        ];
        for (extra, expected) in rows {
            assert_eq!(base(extra).unwrap_err(), expected);
        }
        assert_eq!(
            check(json!({"text": "x"}), message()).unwrap_err(),
            "\"channel\" is missing."
        );
        assert_eq!(
            check(json!([]), message()).unwrap_err(),
            "The arguments must be of type object."
        );
    }

    #[test]
    fn nothing_is_fetched_and_a_schema_that_cannot_be_used_refuses() {
        let remote = json!({"properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}});
        assert!(check(json!({"a": 1}), remote).is_err());
        assert!(check(json!({"a": 1}), json!({"type": "objekt"})).is_err());
        assert!(
            check(
                json!({"a": 1}),
                json!({"properties": {"a": {"pattern": "("}}})
            )
            .is_err()
        );
    }

    #[test]
    fn a_schema_of_an_older_dialect_that_does_not_say_so_is_read_as_what_it_is() {
        let tuple =
            json!({"properties": {"a": {"items": [{"type": "string"}, {"type": "integer"}]}}});
        assert_eq!(check(json!({"a": ["x", 1]}), tuple.clone()), Ok(()));
        assert!(check(json!({"a": [1, 1]}), tuple).is_err());
        let bound = json!({"properties": {"a": {"minimum": 0, "exclusiveMinimum": true}}});
        assert_eq!(check(json!({"a": 1}), bound.clone()), Ok(()));
        assert!(check(json!({"a": 0}), bound.clone()).is_err());
        let mut named = bound;
        named["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        assert!(check(json!({"a": 1}), named).is_err());
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let schema = json!({"properties": {"a": {"pattern": "^(a+)+(?=b)$"}}});
        let started = std::time::Instant::now();
        assert!(check(json!({"a": format!("{}c", "a".repeat(60))}), schema).is_err());
        assert!(started.elapsed() < std::time::Duration::from_secs(2));
    }
}
