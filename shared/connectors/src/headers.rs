//! The headers in which the stateless protocol repeats parts of a message, for whoever routes it.
//!
//! They are made from the very message that is about to be sent, after it was held against its
//! permit: so they cannot say anything else.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const ARGUMENT: &str = "mcp-param-";
/// The mark in a schema that asks for an argument as a header.
const MARK: &str = "x-mcp-header";
/// All of a call's repeated arguments, in bytes. Servers take little more in headers.
const REPEATED_MAX: usize = 8 * 1024;
/// Integers beyond this are not the same number for every reader.
const INTEGER_MAX: u64 = (1 << 53) - 1;
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// An argument that is repeated as a header.
#[derive(Clone, Debug)]
pub(crate) struct Repeated {
    /// The names of the properties that lead to it.
    path: Vec<String>,
    header: HeaderName,
}

/// Which arguments a tool wants repeated, or what is wrong with how its schema asks for it: such a
/// tool may not be used.
pub(crate) fn repeated(schema: &Map<String, Value>) -> Result<Vec<Repeated>, &'static str> {
    let mut search = Search::default();
    search.members(schema, true)?;
    Ok(search.found)
}

/// Looks through a schema. It ends: what is nested deeper than the JSON reader allows was never read.
#[derive(Default)]
struct Search {
    path: Vec<String>,
    found: Vec<Repeated>,
}

impl Search {
    /// `plain`: only `properties` lead here from the top.
    fn schema(&mut self, schema: &Value, plain: bool) -> Result<(), &'static str> {
        match schema {
            Value::Object(members) => self.members(members, plain),
            Value::Array(list) => list.iter().try_for_each(|item| self.schema(item, false)),
            _ => Ok(()),
        }
    }

    fn members(&mut self, schema: &Map<String, Value>, plain: bool) -> Result<(), &'static str> {
        if let Some(header) = schema.get(MARK) {
            if !plain || self.path.is_empty() {
                return Err("a header is asked for where no single argument stands");
            }
            self.mark(header, schema)?;
        }
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        self.path.push(name.clone());
                        self.schema(property, plain)?;
                        self.path.pop();
                    }
                }
                (
                    "$defs" | "definitions" | "dependentSchemas" | "dependencies"
                    | "patternProperties",
                    Value::Object(named),
                ) => named.values().try_for_each(|one| self.schema(one, false))?,
                // Data, in which the mark is no mark.
                ("default" | "const" | "enum" | "examples" | MARK, _) => {}
                _ => self.schema(value, false)?,
            }
        }
        Ok(())
    }

    fn mark(&mut self, header: &Value, schema: &Map<String, Value>) -> Result<(), &'static str> {
        let name = header.as_str().filter(|name| !name.is_empty());
        let name = name.ok_or("a header's name is empty or no text")?;
        let header = HeaderName::from_bytes(format!("{ARGUMENT}{name}").as_bytes())
            .map_err(|_| "a header's name has characters that headers may not have")?;
        if self.found.iter().any(|other| other.header == header) {
            return Err("two arguments ask for the same header");
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string" | "integer" | "boolean") => {}
            _ => {
                return Err(
                    "a header is asked for an argument that is no text, integer or boolean",
                );
            }
        }
        let path = self.path.clone();
        self.found.push(Repeated { path, header });
        Ok(())
    }
}

/// The headers that repeat `message`, or why it cannot be sent.
pub(crate) fn repeating(
    message: &Value,
    version: &'static str,
    repeated: &[Repeated],
) -> Result<HeaderMap, &'static str> {
    let mut headers = HeaderMap::new();
    headers.insert(VERSION, HeaderValue::from_static(version));
    let method = message.get("method").and_then(Value::as_str);
    headers.insert(METHOD, value(method.ok_or("the message has no method")?)?);
    if let Some(name) = message.pointer("/params/name").and_then(Value::as_str) {
        headers.insert(NAME, value(name)?);
    }
    let mut size = 0;
    for Repeated { path, header } in repeated {
        let Some(text) = argument(message, path).map(text).transpose()?.flatten() else {
            continue;
        };
        let value = value(&text)?;
        size += header.as_str().len() + value.len();
        if size > REPEATED_MAX {
            return Err("the arguments are too long for the headers that repeat them");
        }
        headers.insert(header, value);
    }
    Ok(headers)
}

fn argument<'m>(message: &'m Value, path: &[String]) -> Option<&'m Value> {
    let arguments = message.pointer("/params/arguments")?;
    path.iter()
        .try_fold(arguments, |inside, name| inside.get(name.as_str()))
}

/// An argument as text. `None` for what is not repeated: nothing, and what no header can hold.
fn text(argument: &Value) -> Result<Option<String>, &'static str> {
    match argument {
        Value::String(text) => Ok(Some(text.clone())),
        Value::Bool(is) => Ok(Some(is.to_string())),
        Value::Number(number) => match number.as_i64() {
            Some(integer) if integer.unsigned_abs() <= INTEGER_MAX => Ok(Some(integer.to_string())),
            _ => Err("a number is not one that its header can repeat"),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => Ok(None),
    }
}

/// As a header's value; encoded where it would not survive as it is.
fn value(text: &str) -> Result<HeaderValue, &'static str> {
    let (start, end) = ENCODED;
    let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && text.trim_matches(' ').len() == text.len()
        && !(text.starts_with(start) && text.ends_with(end));
    let value = if plain {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::from_str(&format!("{start}{}{end}", BASE64_STANDARD.encode(text)))
    };
    value.map_err(|_| "a value fits into no header")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(properties: Value) -> Result<Vec<Repeated>, &'static str> {
        repeated(json!({"properties": properties}).as_object().unwrap())
    }

    fn sent(properties: Value, arguments: Value) -> Result<HeaderMap, &'static str> {
        let message = json!({"method": "tools/call",
            "params": {"name": "t", "arguments": arguments}});
        repeating(&message, "2026-07-28", &asked(properties).unwrap())
    }

    #[test]
    fn each_argument_is_repeated_as_the_protocol_writes_it() {
        let text = |value: &str| (json!({"type": "string"}), json!(value));
        let rows = [
            (text("us-west1"), Some("us-west1")),
            (text("us west 1"), Some("us west 1")),
            (text(""), Some("")),
            (text("Hello, 世界"), Some("=?base64?SGVsbG8sIOS4lueVjA==?=")),
            (text(" padded "), Some("=?base64?IHBhZGRlZCA=?=")),
            (text("line1\nline2"), Some("=?base64?bGluZTEKbGluZTI=?=")),
            (text("a\r\nEvil: 1"), Some("=?base64?YQ0KRXZpbDogMQ==?=")),
            (text("\tindented"), Some("=?base64?CWluZGVudGVk?=")),
            (
                text("=?base64?literal?="),
                Some("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ),
            ((json!({"type": "integer"}), json!(-7)), Some("-7")),
            ((json!({"type": "boolean"}), json!(false)), Some("false")),
            ((json!({"type": "boolean"}), json!(null)), None),
        ];
        for ((mut schema, argument), expected) in rows {
            schema[MARK] = json!("Region");
            let headers = sent(json!({"a": schema}), json!({"a": argument, "b": 1})).unwrap();
            let found = headers.get("mcp-param-region");
            assert_eq!(
                found.map(|value| value.to_str().unwrap()),
                expected,
                "{argument}"
            );
            assert_eq!(headers.len(), 3 + usize::from(found.is_some()));
        }
    }

    #[test]
    fn the_method_the_name_and_what_stands_deeper_are_repeated_too() {
        let deep = json!({"to": {"type": "object", "properties": {
            "class": {"type": "string", "x-mcp-header": "Class"}}}});
        let headers = sent(deep.clone(), json!({"to": {"class": "5b"}})).unwrap();
        assert_eq!(headers["mcp-param-class"], "5b");
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "t");
        assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
        assert_eq!(sent(deep, json!({"to": "5b"})).unwrap().len(), 3);
        let list = json!({"method": "tools/list", "params": {}});
        assert_eq!(repeating(&list, "2026-07-28", &[]).unwrap().len(), 2);
        let named = json!({"method": "tools/call", "params": {"name": "grüße"}});
        let headers = repeating(&named, "2026-07-28", &[]).unwrap();
        assert_eq!(headers["mcp-name"], "=?base64?Z3LDvMOfZQ==?=");
    }

    #[test]
    fn what_headers_cannot_hold_is_not_sent() {
        let one = |kind: &str| json!({"a": {"type": kind, "x-mcp-header": "A"}});
        assert!(sent(one("string"), json!({"a": "x".repeat(REPEATED_MAX)})).is_err());
        assert!(sent(one("integer"), json!({"a": 1_u64 << 53})).is_err());
        assert!(sent(one("integer"), json!({"a": 1.5})).is_err());
        assert!(sent(one("integer"), json!({"a": INTEGER_MAX})).is_ok());
    }

    #[test]
    fn a_schema_that_asks_wrongly_is_refused() {
        let property =
            |kind: Value, header: Value| json!({"a": {"type": kind, "x-mcp-header": header}});
        let mark = || json!({"type": "string", "x-mcp-header": "A"});
        let wrong = [
            property(json!("string"), json!("")),
            property(json!("string"), json!(5)),
            property(json!("string"), json!("My Region")),
            property(json!("string"), json!("Region:Primary")),
            property(json!("string"), json!("Région")),
            property(json!("string"), json!("A\r\nB")),
            property(json!("number"), json!("A")),
            property(json!("object"), json!("A")),
            property(json!("array"), json!("A")),
            property(json!("null"), json!("A")),
            property(json!(["string", "null"]), json!("A")),
            json!({"a": {"x-mcp-header": "A"}}),
            json!({"a": mark(), "b": {"type": "string", "x-mcp-header": "a"}}),
            json!({"a": {"type": "array", "items": mark()}}),
            json!({"a": {"anyOf": [mark()]}}),
            json!({"a": {"if": {"properties": {"b": mark()}}}}),
            json!({"a": {"additionalProperties": mark()}}),
        ];
        for properties in wrong {
            assert!(asked(properties.clone()).is_err(), "{properties}");
        }
        for schema in [
            mark(),
            json!({"$defs": {"x": mark()}}),
            json!({"$defs": {"x": {"properties": {"a": mark()}}}}),
            json!({"allOf": [{"properties": {"a": mark()}}]}),
        ] {
            assert!(repeated(schema.as_object().unwrap()).is_err(), "{schema}");
        }
    }

    #[test]
    fn what_only_looks_like_the_mark_is_none() {
        let properties = json!({
            "x-mcp-header": {"type": "string"},
            "a": {"type": "object", "default": {"x-mcp-header": 5}, "enum": [{"x-mcp-header": 5}]},
            "b": {"type": "object", "properties": {"x-mcp-header": {"type": "number"}}}
        });
        assert!(asked(properties).unwrap().is_empty());
        let schema = json!({"$defs": {"x-mcp-header": {"type": "string"}}});
        assert!(repeated(schema.as_object().unwrap()).unwrap().is_empty());
    }
}
