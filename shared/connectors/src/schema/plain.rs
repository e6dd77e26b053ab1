//! The few keywords that all model providers read alike.
//!
//! OpenAI, Anthropic and Gemini each refuse a whole request for one schema with a keyword, a form or
//! a value that they do not know, and each for others. What is left in common is enough to write a
//! call: one `type`, `nullable`, `properties`, `required`, `items`, `anyOf` by itself, `enum` of
//! texts, `description`. Every other rule is said in words in the description, where a model reads it
//! as well, and is checked against the tool's own schema when the call is made.

use serde_json::{Map, Value, json};

use super::shown::{WhyNot, is_property_name, names, one_object};

type Schema = Map<String, Value>;

/// Texts of one enum; of more some are named in words.
const ENUM_MAX: usize = 200;
/// Alternatives of one value.
const ALTERNATIVES_MAX: usize = 20;
/// The words for the rules of one value, and one of them, in characters.
const WORDS_MAX: usize = 300;
const WORD_MAX: usize = 80;

/// The schema of an object's arguments; `schema` has neither references nor alternatives at its top.
pub(super) fn plain(schema: &Schema) -> Result<Schema, WhyNot> {
    let mut top = object(schema)?;
    describe(&mut top, said(schema, &["object"]));
    Ok(top)
}

fn value(schema: &Value) -> Result<Schema, WhyNot> {
    let Value::Object(schema) = schema else {
        return Ok(anything());
    };
    let mut schema = joined(schema.clone());
    if schema.contains_key("properties")
        && alternatives(&schema).is_some()
        && let Ok(mut one) = one_object(schema.clone())
    {
        // What alternatives add to an object of its own becomes part of it.
        one.extend(schema.remove("type").map(|kind| ("type".to_owned(), kind)));
        schema = one;
    }
    if let Some(branches) = alternatives(&schema) {
        return any_of(&schema, branches);
    }
    if let Some(values) = listed(&schema) {
        return one_of(&schema, &values);
    }
    let (kinds, nullable) = kinds(&schema)?;
    let mut nodes = Vec::new();
    for kind in &kinds {
        let mut node = match *kind {
            "object" => object(&schema)?,
            "array" => array(&schema)?,
            kind => typed(kind),
        };
        if kinds.len() > 1 {
            describe(&mut node, bracketed(&rules(&schema, &[kind])));
        }
        nodes.push(node);
    }
    let mut node = united(nodes, nullable);
    let only = if kinds.len() == 1 {
        kinds.as_slice()
    } else {
        &[]
    };
    describe(&mut node, said(&schema, only));
    Ok(node)
}

fn typed(kind: &str) -> Schema {
    Map::from_iter([("type".to_owned(), json!(kind))])
}

/// A value of which nothing is known. Each alternative has a type, since one provider wants that;
/// only null and lists of lists are not among them.
fn anything() -> Schema {
    let [text, number, truth] = ["string", "number", "boolean"].map(|kind| json!({"type": kind}));
    let mut all = vec![text, number, truth];
    all.push(json!({"type": "object", "properties": {}}));
    let list = json!({"type": "array", "items": {"anyOf": all}});
    all.push(list);
    Map::from_iter([("anyOf".to_owned(), Value::Array(all))])
}

fn object(schema: &Schema) -> Result<Schema, WhyNot> {
    let required = names(schema.get("required"));
    let mut properties = Map::new();
    if let Some(Value::Object(own)) = schema.get("properties") {
        for (name, property) in own {
            if !is_property_name(name) {
                // An argument that cannot be named can be left out, unless the tool needs it.
                if required.contains(name) {
                    return Err(WhyNot::PropertyName);
                }
                continue;
            }
            properties.insert(name.clone(), Value::Object(value(property)?));
        }
    }
    let mut node = typed("object");
    let required: Vec<String> = required
        .into_iter()
        .filter(|name| properties.contains_key(name))
        .collect();
    node.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        node.insert("required".to_owned(), json!(required));
    }
    Ok(node)
}

fn array(schema: &Schema) -> Result<Schema, WhyNot> {
    let mut nodes = Vec::new();
    if let Some(Value::Array(first)) = schema.get("prefixItems") {
        for item in first.iter().take(ALTERNATIVES_MAX) {
            nodes.push(value(item)?);
        }
    }
    if let Some(items @ Value::Object(_)) = schema.get("items") {
        nodes.push(value(items)?);
    }
    let mut node = typed("array");
    let items = united(nodes, false);
    node.insert("items".to_owned(), Value::Object(items));
    Ok(node)
}

/// Parts of `allOf` laid over each other; where they differ, what stands first counts.
fn joined(mut schema: Schema) -> Schema {
    let Some(Value::Array(parts)) = schema.remove("allOf") else {
        return schema;
    };
    for part in parts {
        let Value::Object(part) = part else { continue };
        for (name, more) in joined(part) {
            match (name.as_str(), schema.get_mut(&name), more) {
                ("properties", Some(Value::Object(own)), Value::Object(more)) => {
                    for (name, property) in more {
                        own.entry(name).or_insert(property);
                    }
                }
                ("required", Some(Value::Array(own)), Value::Array(more)) => own.extend(more),
                (_, Some(_), _) => {}
                (_, None, more) => {
                    schema.insert(name, more);
                }
            }
        }
    }
    schema
}

fn alternatives(schema: &Schema) -> Option<&Vec<Value>> {
    let list = |name| schema.get(name).and_then(Value::as_array);
    list("anyOf").or_else(|| list("oneOf"))
}

fn any_of(schema: &Schema, branches: &[Value]) -> Result<Schema, WhyNot> {
    let is_null = |branch: &Value| {
        branch.get("type").is_some_and(|kind| kind == "null")
            || branch.get("const").is_some_and(Value::is_null)
    };
    let nullable = branches.iter().any(is_null);
    // What stands beside the alternatives holds for each of them.
    let mut beside = schema.clone();
    for name in [
        "anyOf",
        "oneOf",
        "description",
        "title",
        "default",
        "examples",
    ] {
        beside.remove(name);
    }
    let mut nodes = Vec::new();
    for branch in branches
        .iter()
        .filter(|branch| !is_null(branch))
        .take(ALTERNATIVES_MAX)
    {
        let mut part = beside.clone();
        if let Value::Object(branch) = branch {
            part.extend(branch.clone());
        }
        nodes.push(value(&Value::Object(part))?);
    }
    let only_null = nodes.is_empty() && nullable;
    let mut node = if only_null {
        nothing()
    } else {
        united(nodes, nullable)
    };
    describe(&mut node, said(schema, &[]));
    Ok(node)
}

/// The one value that is no value, in a form that every provider knows.
fn nothing() -> Schema {
    let mut node = typed("string");
    node.insert("nullable".to_owned(), json!(true));
    describe(&mut node, "(always null)".to_owned());
    node
}

/// Several forms of a value as one schema.
fn united(nodes: Vec<Schema>, nullable: bool) -> Schema {
    let mut distinct: Vec<Schema> = Vec::new();
    for node in nodes {
        // Alternatives of an alternative stand beside the others.
        let several = match node.get("anyOf") {
            Some(Value::Array(list)) if node.len() == 1 => list.clone(),
            _ => vec![Value::Object(node)],
        };
        for node in several {
            if let Value::Object(node) = node
                && !distinct.contains(&node)
            {
                distinct.push(node);
            }
        }
    }
    if let Some(texts) = one_enum(&distinct) {
        distinct = vec![texts];
    }
    let mut node = match distinct.as_slice() {
        [] => anything(),
        [one] => one.clone(),
        several => Map::from_iter([("anyOf".to_owned(), json!(several))]),
    };
    if nullable {
        let null = ("nullable".to_owned(), json!(true));
        match node.get_mut("anyOf").and_then(Value::as_array_mut) {
            Some(branches) => {
                for branch in branches.iter_mut().filter_map(Value::as_object_mut) {
                    branch.insert(null.0.clone(), null.1.clone());
                }
            }
            None => {
                node.insert(null.0, null.1);
            }
        }
    }
    node
}

/// Alternatives that are all fixed texts are one list of texts, with what is said of each.
fn one_enum(nodes: &[Schema]) -> Option<Schema> {
    if nodes.len() < 2 {
        return None;
    }
    let mut texts: Vec<Value> = Vec::new();
    let mut words = Vec::new();
    for node in nodes {
        let Some(Value::Array(own)) = node.get("enum") else {
            return None;
        };
        if let (Some(description), [text]) = (node.get("description"), own.as_slice()) {
            let description = description.as_str().unwrap_or_default();
            words.push(format!(
                "{}: {description}",
                text.as_str().unwrap_or_default()
            ));
        }
        texts.extend(
            own.iter()
                .filter(|text| !texts.contains(text))
                .cloned()
                .collect::<Vec<_>>(),
        );
    }
    let mut node = typed("string");
    node.insert("enum".to_owned(), Value::Array(texts));
    if nodes.iter().any(|node| node.contains_key("nullable")) {
        node.insert("nullable".to_owned(), json!(true));
    }
    describe(&mut node, bracketed(&words));
    Some(node)
}

/// The values of `enum` or `const`.
fn listed(schema: &Schema) -> Option<Vec<Value>> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => Some(values.clone()),
        (_, Some(value)) => Some(vec![value.clone()]),
        (_, None) => None,
    }
}

/// Fixed values: a list of texts as such, others by their types and in words.
fn one_of(schema: &Schema, values: &[Value]) -> Result<Schema, WhyNot> {
    let nullable = values.iter().any(Value::is_null);
    let declared = names_of_types(schema);
    let mut nodes = Vec::new();
    for kind in ["string", "integer", "number", "boolean", "object", "array"] {
        let own: Vec<&Value> = values
            .iter()
            .filter(|value| kind_of(value) == kind)
            .collect();
        if own.is_empty() || (!declared.is_empty() && !declared.iter().any(|name| fits(kind, name)))
        {
            continue;
        }
        let mut node = match kind {
            "object" => object(&Map::new())?,
            "array" => array(&Map::new())?,
            kind => typed(kind),
        };
        // An empty text in an enum is refused by one provider.
        let texts = own
            .iter()
            .all(|text| text.as_str().is_some_and(|text| !text.is_empty()));
        if texts && own.len() <= ENUM_MAX {
            node.insert("enum".to_owned(), json!(own));
        } else {
            describe(&mut node, bracketed(&[format!("one of {}", some_of(&own))]));
        }
        nodes.push(node);
    }
    if nodes.is_empty() && nullable {
        nodes.push(nothing());
    }
    if nodes.is_empty() {
        // Values of another type than the declared one: the type is believed.
        let simple = ["integer", "number", "boolean"];
        let kind = simple
            .into_iter()
            .find(|kind| declared.iter().any(|name| name == kind));
        let mut node = typed(kind.unwrap_or("string"));
        let values: Vec<&Value> = values.iter().collect();
        describe(
            &mut node,
            bracketed(&[format!("one of {}", some_of(&values))]),
        );
        nodes.push(node);
    }
    let mut node = united(nodes, nullable);
    describe(&mut node, said(schema, &[]));
    Ok(node)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn fits(kind: &str, declared: &str) -> bool {
    kind == declared || (kind == "integer" && declared == "number")
}

fn names_of_types(schema: &Schema) -> Vec<String> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        other => names(other),
    }
}

/// The types of a value without null, and whether it may be null. Without a word on its type, the
/// other keywords tell; if they do not, there is none.
fn kinds(schema: &Schema) -> Result<(Vec<&'static str>, bool), WhyNot> {
    const KNOWN: [&str; 6] = ["string", "integer", "number", "boolean", "object", "array"];
    let declared = names_of_types(schema);
    let nullable = declared.iter().any(|name| name == "null");
    let mut kinds = Vec::new();
    for name in declared.iter().filter(|name| *name != "null") {
        let known = KNOWN.iter().find(|known| *known == name);
        kinds.push(*known.ok_or(WhyNot::Malformed)?);
    }
    if kinds.is_empty() && !nullable {
        const TELLS: [(&str, &[&str]); 4] = [
            (
                "object",
                &[
                    "properties",
                    "required",
                    "additionalProperties",
                    "patternProperties",
                ],
            ),
            ("array", &["items", "prefixItems", "minItems", "maxItems"]),
            ("string", &["pattern", "format", "minLength", "maxLength"]),
            (
                "number",
                &[
                    "minimum",
                    "maximum",
                    "exclusiveMinimum",
                    "exclusiveMaximum",
                    "multipleOf",
                ],
            ),
        ];
        let told = TELLS
            .iter()
            .find(|(_, tells)| tells.iter().any(|name| schema.contains_key(*name)));
        kinds.extend(told.map(|(kind, _)| *kind));
    }
    if kinds.is_empty() && nullable {
        kinds.push("string");
    }
    Ok((kinds, nullable))
}

/// Adds to what is said of a value; of alternatives the first carries it, since one provider allows
/// nothing beside them.
fn describe(node: &mut Schema, text: String) {
    if text.is_empty() {
        return;
    }
    let node = match node.get_mut("anyOf").and_then(Value::as_array_mut) {
        Some(branches) => match branches.first_mut().and_then(Value::as_object_mut) {
            Some(first) => first,
            None => return,
        },
        None => node,
    };
    let known = node
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let all = if known.is_empty() {
        text
    } else {
        format!("{text} {known}")
    };
    node.insert("description".to_owned(), json!(all));
}

/// What a schema says of a value: its description, and the rules for these types in words.
fn said(schema: &Schema, kinds: &[&str]) -> String {
    let text = |name: &str| {
        schema
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim()
    };
    let description = match text("description") {
        "" => text("title"),
        description => description,
    };
    let mut words = rules(schema, kinds);
    words.extend(examples(schema));
    let words = bracketed(&words);
    [description, &words]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn bracketed(words: &[String]) -> String {
    let mut all = String::new();
    for word in words {
        let joint = if all.is_empty() { "(" } else { "; " };
        if all.chars().count() + word.chars().count() + joint.len() + 1 > WORDS_MAX {
            break;
        }
        all.push_str(joint);
        all.push_str(word);
    }
    if all.is_empty() { all } else { all + ")" }
}

fn some_of(values: &[&Value]) -> String {
    let mut all = String::new();
    for (nth, value) in values.iter().enumerate() {
        let value = value.to_string();
        if all.chars().count() + value.chars().count() > WORDS_MAX / 2 {
            return format!("{all}, … ({} in all)", values.len());
        }
        all += if nth > 0 { ", " } else { "" };
        all += &value;
    }
    all
}

/// The rules for values of these types, which have no common keyword, in words.
fn rules(schema: &Schema, kinds: &[&str]) -> Vec<String> {
    type Rule = (&'static str, &'static str, &'static str, &'static str);
    const RULES: [Rule; 15] = [
        ("string", "format", "format ", ""),
        ("string", "pattern", "pattern ", ""),
        ("string", "minLength", "at least ", " characters"),
        ("string", "maxLength", "at most ", " characters"),
        ("string", "contentEncoding", "encoded as ", ""),
        ("string", "contentMediaType", "of type ", ""),
        ("number", "minimum", "at least ", ""),
        ("number", "maximum", "at most ", ""),
        ("number", "exclusiveMinimum", "more than ", ""),
        ("number", "exclusiveMaximum", "less than ", ""),
        ("number", "multipleOf", "a multiple of ", ""),
        ("array", "minItems", "at least ", " items"),
        ("array", "maxItems", "at most ", " items"),
        ("object", "minProperties", "at least ", " fields"),
        ("object", "maxProperties", "at most ", " fields"),
    ];
    let has = |kind: &str| kinds.iter().any(|one| fits(one, kind));
    let mut words = Vec::new();
    for (kind, name, before, after) in RULES {
        let value = match schema.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(number @ Value::Number(_)) => number.to_string(),
            _ => continue,
        };
        if has(kind) && value.chars().count() <= WORD_MAX {
            words.push(format!("{before}{value}{after}"));
        }
    }
    if has("array") && schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        words.push("no item twice".to_owned());
    }
    if has("object")
        && let Some(Value::Object(others)) = schema.get("additionalProperties")
    {
        let types = names_of_types(others).join(" or ");
        words.push(if types.is_empty() {
            "any other fields".to_owned()
        } else {
            format!("any other fields, each of type {types}")
        });
    }
    words
}

fn examples(schema: &Schema) -> Vec<String> {
    let default = schema.get("default").filter(|value| !value.is_null());
    let example = schema.get("examples").and_then(|examples| examples.get(0));
    let named = [("default", default), ("for example", example)];
    let words = named.into_iter().filter_map(|(word, value)| {
        let value = value?.to_string();
        (value.chars().count() <= WORD_MAX).then(|| format!("{word} {value}"))
    });
    words.collect()
}
