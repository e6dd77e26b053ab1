//! A tool's schema in the form that OpenAI-compatible providers accept.
//!
//! One schema that a provider refuses breaks the whole request, so what cannot be rewritten is left
//! out alone. The rewritten schema may allow more than the tool's own: arguments are always checked
//! against that one.

use serde_json::{Map, Value, json};

use super::plain::plain;
use super::validate::built;

/// The rewritten schema, in bytes.
const SIZE_MAX: usize = 32 * 1024;
const DEPTH_MAX: usize = 24;
/// Subschemas, counted after references are put in place.
const COUNT_MAX: usize = 1_000;
/// The strictest provider's rule for the names of arguments.
const PROPERTY_NAME_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    #[error("its arguments are not an object")]
    NotAnObject,
    #[error("its schema is too large")]
    TooLarge,
    #[error("its schema is nested too deeply")]
    TooDeep,
    #[error("its schema refers to another document")]
    RemoteReference,
    #[error("its schema refers to something that is not there")]
    BrokenReference,
    #[error("an argument that it needs has a name that model providers refuse")]
    PropertyName,
    #[error("parts of its schema contradict each other")]
    Contradiction,
    #[error("its schema is not well formed")]
    Malformed,
}

/// Rewrites a tool's input schema, or says why the tool must be left out.
///
/// References to the schema itself are put in place (a recursive one accepts anything), alternatives
/// and combinations at the top become one object, and what has no keyword that all providers share is
/// said in words. Nothing is ever fetched.
pub fn acceptable(schema: &Map<String, Value>) -> Result<Map<String, Value>, WhyNot> {
    let root = Value::Object(schema.clone());
    let mut rewriter = Rewriter {
        root: &root,
        count: 0,
        under_way: Vec::new(),
    };
    let top = match rewriter.schema(&root, 0)? {
        Value::Object(top) => plain(&one_object(top)?)?,
        _ => return Err(WhyNot::NotAnObject),
    };
    if Value::Object(top.clone()).to_string().len() > SIZE_MAX {
        return Err(WhyNot::TooLarge);
    }
    // Whose arguments cannot be checked can never be called.
    if built(schema).is_none() {
        return Err(WhyNot::Malformed);
    }
    Ok(top)
}

/// How a keyword's value is read.
enum Keyword {
    Schema,
    ListOfSchemas,
    MapOfSchemas,
    Data,
    Dropped,
}

fn keyword(name: &str) -> Keyword {
    match name {
        "additionalProperties"
        | "items"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "propertyNames"
        | "additionalItems" => Keyword::Schema,
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => Keyword::ListOfSchemas,
        "properties" | "patternProperties" => Keyword::MapOfSchemas,
        // What references need is in place by then; the others speak of the document.
        "$defs"
        | "definitions"
        | "dependentSchemas"
        | "dependencies"
        | "unevaluatedProperties"
        | "unevaluatedItems" => Keyword::Dropped,
        name if name.starts_with('$') || name.starts_with("x-") => Keyword::Dropped,
        _ => Keyword::Data,
    }
}

struct Rewriter<'a> {
    root: &'a Value,
    count: usize,
    /// References that are being put in place, to notice one inside itself.
    under_way: Vec<String>,
}

impl Rewriter<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Result<Value, WhyNot> {
        self.count += 1;
        if self.count > COUNT_MAX {
            return Err(WhyNot::TooLarge);
        }
        if depth > DEPTH_MAX {
            return Err(WhyNot::TooDeep);
        }
        match schema {
            Value::Bool(true) => Ok(json!({})),
            Value::Bool(false) => Ok(json!({"not": {}})),
            Value::Object(schema) => match schema.get("$ref") {
                Some(Value::String(reference)) => self.reference(reference, schema, depth),
                Some(_) => Err(WhyNot::Malformed),
                None => self.members(schema, depth).map(Value::Object),
            },
            _ => Err(WhyNot::Malformed),
        }
    }

    /// The target with what stands beside the reference (usually a description) laid over it.
    fn reference(
        &mut self,
        reference: &str,
        beside: &Map<String, Value>,
        depth: usize,
    ) -> Result<Value, WhyNot> {
        let pointer = reference.strip_prefix('#').ok_or(WhyNot::RemoteReference)?;
        if self.under_way.iter().any(|other| other == reference) {
            return Ok(json!({}));
        }
        let target = self.root.pointer(pointer).ok_or(WhyNot::BrokenReference)?;
        self.under_way.push(reference.to_owned());
        let placed = self.schema(target, depth + 1);
        self.under_way.pop();
        let mut beside = beside.clone();
        beside.remove("$ref");
        let beside = self.members(&beside, depth)?;
        match placed? {
            Value::Object(mut placed) => {
                placed.extend(beside);
                Ok(Value::Object(placed))
            }
            other => Ok(other),
        }
    }

    fn members(
        &mut self,
        schema: &Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, WhyNot> {
        let mut out = Map::new();
        for (name, value) in schema {
            let value = match (keyword(name), value) {
                (Keyword::Dropped, _) => continue,
                (Keyword::Data, value) => value.clone(),
                // Providers read `false` here, and it is the most common of all.
                (Keyword::Schema, Value::Bool(value)) => Value::Bool(*value),
                // A list of item schemas is the old form of `prefixItems`; few providers read either.
                (Keyword::Schema, Value::Array(_)) if name == "items" => json!({}),
                (Keyword::Schema, value) => self.schema(value, depth + 1)?,
                (Keyword::ListOfSchemas, Value::Array(list)) if !list.is_empty() => {
                    let list: Result<Vec<_>, _> = list
                        .iter()
                        .map(|item| self.schema(item, depth + 1))
                        .collect();
                    Value::Array(list?)
                }
                (Keyword::MapOfSchemas, Value::Object(map)) => {
                    Value::Object(self.map(map, name == "properties", depth)?)
                }
                (Keyword::ListOfSchemas | Keyword::MapOfSchemas, _) => {
                    return Err(WhyNot::Malformed);
                }
            };
            out.insert(name.clone(), value);
        }
        Ok(out)
    }

    fn map(
        &mut self,
        map: &Map<String, Value>,
        named: bool,
        depth: usize,
    ) -> Result<Map<String, Value>, WhyNot> {
        let mut out = Map::new();
        for (name, value) in map {
            // A property that may not be there need not be shown.
            if named && *value == Value::Bool(false) {
                continue;
            }
            out.insert(name.clone(), self.schema(value, depth + 1)?);
        }
        Ok(out)
    }
}

pub(super) fn is_property_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=PROPERTY_NAME_MAX).contains(&name.len()) && name.chars().all(allowed)
}

type Properties = Map<String, Value>;

/// The top as one plain object: properties of all parts; of alternatives, only what all require.
pub(super) fn one_object(mut top: Map<String, Value>) -> Result<Map<String, Value>, WhyNot> {
    let (properties, required) = flattened(&top)?;
    for name in [
        "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const",
    ] {
        top.remove(name);
    }
    let required: Vec<String> = required
        .into_iter()
        .filter(|name| properties.contains_key(name))
        .collect();
    top.insert("type".to_owned(), json!("object"));
    top.insert("properties".to_owned(), Value::Object(properties));
    if required.is_empty() {
        top.remove("required");
    } else {
        top.insert("required".to_owned(), json!(required));
    }
    // Said of one part, it would forbid what another part allows.
    if top
        .get("additionalProperties")
        .is_some_and(|value| !value.is_boolean())
    {
        top.remove("additionalProperties");
    }
    Ok(top)
}

fn flattened(part: &Map<String, Value>) -> Result<(Properties, Vec<String>), WhyNot> {
    let is_object = match part.get("type") {
        None => true,
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        Some(_) => false,
    };
    if !is_object {
        return Err(WhyNot::NotAnObject);
    }
    let mut properties = match part.get("properties") {
        Some(Value::Object(properties)) => properties.clone(),
        _ => Properties::new(),
    };
    let mut required = names(part.get("required"));
    for other in parts(part, "allOf") {
        let (more, needed) = flattened(other?)?;
        for (name, schema) in more {
            match properties.get(&name) {
                Some(own) if *own != schema => return Err(WhyNot::Contradiction),
                _ => properties.insert(name, schema),
            };
        }
        required.extend(
            needed
                .into_iter()
                .filter(|name| !required.contains(name))
                .collect::<Vec<_>>(),
        );
    }
    for keyword in ["anyOf", "oneOf"] {
        let mut common: Option<Vec<String>> = None;
        for other in parts(part, keyword) {
            let (more, needed) = flattened(other?)?;
            for (name, schema) in more {
                let both = match properties.remove(&name) {
                    Some(own) => either(own, schema),
                    None => schema,
                };
                properties.insert(name, both);
            }
            common = Some(match common {
                None => needed,
                Some(common) => common
                    .into_iter()
                    .filter(|name| needed.contains(name))
                    .collect(),
            });
        }
        let common = common.unwrap_or_default();
        required.extend(
            common
                .into_iter()
                .filter(|name| !required.contains(name))
                .collect::<Vec<_>>(),
        );
    }
    Ok((properties, required))
}

pub(super) fn names(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn parts<'a>(
    part: &'a Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = Result<&'a Map<String, Value>, WhyNot>> {
    let list = part
        .get(keyword)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    list.map(|other| other.as_object().ok_or(WhyNot::Malformed))
}

/// A property that alternatives describe differently.
fn either(one: Value, other: Value) -> Value {
    if one == other || one == json!({}) {
        return one;
    }
    match one {
        Value::Object(mut map)
            if map.len() == 1 && map.get("anyOf").is_some_and(Value::is_array) =>
        {
            if let Some(Value::Array(list)) = map.get_mut("anyOf")
                && !list.contains(&other)
            {
                list.push(other);
            }
            Value::Object(map)
        }
        one => json!({"anyOf": [one, other]}),
    }
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
