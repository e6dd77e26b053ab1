//! Shapes of argument schemas as real servers list them, against what model providers refuse.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{WhyNot, acceptable, validate};

/// A shape, and arguments that its tool takes.
struct Shape {
    what: &'static str,
    schema: Value,
    good: Vec<Value>,
}

fn shape(what: &'static str, schema: Value, good: impl IntoIterator<Item = Value>) -> Shape {
    let good = good.into_iter().collect();
    Shape { what, schema, good }
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// Why OpenAI, Anthropic or Gemini would refuse the request that shows this schema.
fn refusal(schema: &Map<String, Value>) -> Option<String> {
    let top = ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"];
    if schema.get("type") != Some(&json!("object")) {
        return Some("the top is no object".to_owned());
    }
    if let Some(name) = top.iter().find(|name| schema.contains_key(**name)) {
        return Some(format!("{name} at the top"));
    }
    refused_node(schema).or_else(|| {
        // A schema that is none is refused whatever it says.
        let fits = validate(&json!({}), schema);
        fits.err().filter(|why| why.contains("cannot be used"))
    })
}

fn refused_node(node: &Map<String, Value>) -> Option<String> {
    const KNOWN: [&str; 8] = [
        "type",
        "nullable",
        "description",
        "enum",
        "properties",
        "required",
        "items",
        "anyOf",
    ];
    let odd = |what: &str| Some(format!("{what} in {}", Value::Object(node.clone())));
    if node.keys().any(|name| !KNOWN.contains(&name.as_str())) {
        return odd("an unknown keyword");
    }
    if let Some(branches) = node.get("anyOf") {
        let Some(branches) = branches.as_array().filter(|list| list.len() > 1) else {
            return odd("no alternatives");
        };
        if node.len() > 1 {
            return odd("something beside anyOf");
        }
        return branches.iter().find_map(|branch| match branch.as_object() {
            Some(branch) => refused_node(branch),
            None => odd("an alternative that is no schema"),
        });
    }
    let kind = node.get("type").and_then(Value::as_str).unwrap_or_default();
    if !["string", "integer", "number", "boolean", "object", "array"].contains(&kind) {
        return odd("no single type");
    }
    if !node.get("description").is_none_or(Value::is_string)
        || !node.get("nullable").is_none_or(|value| *value == true)
    {
        return odd("a keyword of a wrong type");
    }
    if let Some(texts) = node.get("enum") {
        let texts = texts.as_array().filter(|texts| !texts.is_empty());
        let good = texts.is_some_and(|texts| {
            texts
                .iter()
                .all(|text| text.as_str().is_some_and(|text| !text.is_empty()))
        });
        if kind != "string" || !good {
            return odd("an enum of more than texts");
        }
    }
    if (kind == "array") != node.contains_key("items") {
        return odd("items beside another type, or none");
    }
    if kind != "object" && (node.contains_key("properties") || node.contains_key("required")) {
        return odd("properties of no object");
    }
    let properties = node.get("properties").and_then(Value::as_object);
    if kind == "object" && properties.is_none() {
        return odd("an object without properties");
    }
    for name in node
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let defined = name
            .as_str()
            .is_some_and(|name| properties.is_some_and(|own| own.contains_key(name)));
        if !defined {
            return odd("a required property that is not there");
        }
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    for (name, property) in properties.into_iter().flatten() {
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return odd("the name of a property");
        }
        match property.as_object() {
            Some(property) => match refused_node(property) {
                None => {}
                refused => return refused,
            },
            None => return odd("a property that is no schema"),
        }
    }
    match node.get("items") {
        None => None,
        Some(Value::Object(items)) => refused_node(items),
        Some(_) => odd("items that are no schema"),
    }
}

fn members(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Object(named) => named.values_mut().collect(),
        Value::Array(list) => list.iter_mut().collect(),
        _ => Vec::new(),
    }
}

/// The shown schema as JSON Schema reads it: `nullable` is a keyword of the providers.
fn with_null(node: &Map<String, Value>) -> Map<String, Value> {
    let mut node = node.clone();
    for name in ["properties", "anyOf"] {
        for inner in node.get_mut(name).map(members).into_iter().flatten() {
            if let Value::Object(inner) = inner {
                *inner = with_null(inner);
            }
        }
    }
    if let Some(Value::Object(items)) = node.get_mut("items") {
        *items = with_null(items);
    }
    if node.remove("nullable").is_some() {
        let kind = node.get("type").cloned();
        node.insert("type".to_owned(), json!([kind, "null"]));
        if let Some(Value::Array(texts)) = node.get_mut("enum") {
            texts.push(Value::Null);
        }
    }
    node
}

fn corpus() -> Vec<Shape> {
    let recursive = json!({
        "type": "object",
        "properties": {"blocks": {"type": "array", "items": {"$ref": "#/$defs/Block"}}},
        "$defs": {"Block": {
            "type": "object",
            "properties": {
                "type": {"const": "paragraph"},
                "text": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Block"}},
            },
            "required": ["type"],
        }},
    });
    let union_at_top = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "anyOf": [
            {"$ref": "#/$defs/ByPage"},
            {"$ref": "#/$defs/ByDatabase"},
        ],
        "$defs": {
            "ByPage": {"type": "object", "properties": {
                "page_id": {"type": "string", "format": "uuid"}}, "required": ["page_id"],
                "additionalProperties": false},
            "ByDatabase": {"type": "object", "properties": {
                "database_id": {"type": "string", "format": "uuid"}}, "required": ["database_id"],
                "additionalProperties": false},
        },
    });
    vec![
        shape("no arguments at all", json!({}), [json!({})]),
        shape(
            "an object that forgot its type",
            json!({"properties": {"id": {"type": "string"}}, "required": ["id"]}),
            [json!({"id": "a"})],
        ),
        shape(
            "what a TypeScript validator writes",
            json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {
                    "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9_007_199_254_740_991_i64, "default": 20},
                    "labels": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "string"}},
                    "since": {"type": "string", "format": "date-time"},
                    "mode": {"type": "string", "const": "fast"},
                },
                "required": ["limit"],
                "additionalProperties": false,
            }),
            [json!({"limit": 5, "labels": {"a": "b"}, "mode": "fast"})],
        ),
        shape(
            "optional values as a Python library writes them",
            json!({
                "type": "object",
                "title": "SearchArguments",
                "properties": {
                    "query": {"title": "Query", "type": "string"},
                    "folder": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "Folder"},
                    "size": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 10},
                    "ids": {"anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "string"}, {"type": "null"}]},
                },
                "required": ["query", "folder"],
            }),
            [
                json!({"query": "a", "folder": null}),
                json!({"query": "a", "folder": "b", "size": 3, "ids": ["x"]}),
                json!({"query": "a", "folder": "b", "size": null, "ids": "x"}),
            ],
        ),
        shape(
            "a referenced enum with a default beside it",
            json!({
                "type": "object",
                "properties": {"priority": {"allOf": [{"$ref": "#/$defs/Priority"}], "default": "low", "description": "How urgent"}},
                "$defs": {"Priority": {"enum": ["low", "high"], "type": "string", "title": "Priority"}},
            }),
            [json!({}), json!({"priority": "high"})],
        ),
        shape(
            "a constant for each alternative, with its meaning",
            object(json!({"state": {"oneOf": [
                {"const": "open", "description": "Not done"},
                {"const": "closed", "description": "Done"},
            ]}})),
            [json!({"state": "open"})],
        ),
        shape(
            "numbers as alternatives",
            object(json!({
                "effort": {"anyOf": [{"type": "number", "const": 6}, {"type": "number", "const": 7.5}]},
                "minutes": {"type": "integer", "enum": [60, 1440, 4320]},
                "flag": {"enum": [true]},
            })),
            [json!({"effort": 7.5, "minutes": 60, "flag": true})],
        ),
        shape(
            "values of several types in one enum",
            object(json!({"level": {"enum": ["auto", 1, 2, null, ""]}})),
            [
                json!({"level": "auto"}),
                json!({"level": 2}),
                json!({"level": null}),
                json!({"level": ""}),
            ],
        ),
        shape(
            "a type that is a list",
            object(json!({
                "due": {"type": ["string", "null"], "format": "date", "maxLength": 10},
                "value": {"type": ["string", "number", "boolean"], "maxLength": 5, "minimum": 1},
                "nothing": {"type": "null"},
            })),
            [
                json!({"due": null, "value": 5, "nothing": null}),
                json!({"due": "2026-05-12", "value": "abc"}),
                json!({"value": true}),
            ],
        ),
        shape(
            "alternatives beside a description, a type and items",
            object(json!({"comments": {
                "type": "array",
                "description": "Remarks on lines",
                "items": {
                    "type": "object",
                    "description": "One remark",
                    "properties": {"path": {"type": "string"}, "line": {"type": "integer"}, "position": {"type": "integer"}},
                    "anyOf": [{"required": ["path", "line"]}, {"required": ["path", "position"]}],
                },
            }})),
            [json!({"comments": [{"path": "a", "line": 1}, {"path": "a", "position": 2}]})],
        ),
        shape(
            "one of several fields must be given",
            json!({
                "type": "object",
                "properties": {"id": {"type": "string"}, "title": {"type": "string"}, "text": {"type": "string"}},
                "required": ["id"],
                "anyOf": [{"required": ["title"]}, {"required": ["text"]}],
            }),
            [
                json!({"id": "1", "title": "a"}),
                json!({"id": "1", "text": "b"}),
            ],
        ),
        shape(
            "two kinds of arguments as alternatives at the top, by reference",
            union_at_top,
            [
                json!({"page_id": "550e8400-e29b-41d4-a716-446655440000"}),
                json!({"database_id": "550e8400-e29b-41d4-a716-446655440000"}),
            ],
        ),
        shape(
            "parts that are put together at the top",
            json!({"allOf": [
                {"type": "object", "properties": {"owner": {"type": "string"}}, "required": ["owner"]},
                {"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]},
            ], "unevaluatedProperties": false}),
            [json!({"owner": "a", "repo": "b"})],
        ),
        shape(
            "blocks inside blocks",
            recursive,
            [
                json!({"blocks": [{"type": "paragraph", "children": [{"type": "paragraph", "text": "x"}]}]}),
            ],
        ),
        shape(
            "a discriminated union of objects",
            object(json!({"filter": {
                "discriminator": {"propertyName": "kind", "mapping": {"text": "#/x"}},
                "oneOf": [
                    {"type": "object", "properties": {"kind": {"const": "text"}, "contains": {"type": "string"}}, "required": ["kind", "contains"]},
                    {"type": "object", "properties": {"kind": {"const": "number"}, "above": {"type": "number"}}, "required": ["kind", "above"]},
                ],
            }})),
            [
                json!({"filter": {"kind": "text", "contains": "a"}}),
                json!({"filter": {"kind": "number", "above": 3}}),
            ],
        ),
        shape(
            "free objects and anything",
            object(json!({
                "properties": {"type": "object"},
                "metadata": {"type": "object", "additionalProperties": true},
                "value": {},
                "raw": true,
                "list": {"type": "array"},
                "pairs": {"type": "array", "items": {}},
            })),
            [
                json!({"properties": {"a": {"b": 1}}, "metadata": {"x": [1]}, "value": {"deep": [1]}, "raw": 5}),
                json!({"value": "text", "raw": [1, "a"], "list": [1, "a"], "pairs": ["x"]}),
            ],
        ),
        shape(
            "a tuple",
            object(json!({"point": {
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "string"}],
                "items": false,
            }})),
            [json!({"point": [1.5, "m"]})],
        ),
        shape(
            "a tuple as it was written long ago",
            object(json!({"range": {
                "type": "array",
                "items": [{"type": "string"}, {"type": "integer"}],
            }})),
            [json!({"range": ["a", 1]})],
        ),
        shape(
            "bounds as they were written long ago",
            object(json!({"count": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}})),
            [json!({"count": 1})],
        ),
        shape(
            "names that some providers refuse",
            json!({
                "type": "object",
                "properties": {"$filter": {"type": "string"}, "@odata.type": {"type": "string"}, "to[]": {"type": "array"}, "id": {"type": "string"}},
                "required": ["id"],
            }),
            [json!({"id": "a"})],
        ),
        shape(
            "conditions",
            json!({
                "type": "object",
                "properties": {"kind": {"enum": ["a", "b"]}, "extra": {"type": "string"}},
                "if": {"properties": {"kind": {"const": "b"}}},
                "then": {"required": ["extra"]},
                "dependentRequired": {"extra": ["kind"]},
                "not": {"required": ["forbidden"]},
            }),
            [json!({"kind": "a"}), json!({"kind": "b", "extra": "x"})],
        ),
        shape(
            "formats, patterns, encodings, examples",
            object(json!({
                "mail": {"type": "string", "format": "email", "examples": ["a@b.example"]},
                "code": {"type": "string", "pattern": "^[A-Z]{3}(?=-)", "minLength": 3},
                "file": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
                "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 960, "uniqueItems": true},
                "old": {"type": "string", "deprecated": true, "readOnly": true, "x-internal": 1},
            })),
            [json!({"mail": "a@b.example", "code": "ABC-", "file": "aGk=", "list": ["a"]})],
        ),
        shape(
            "an OpenAPI relic",
            object(
                json!({"note": {"type": "string", "nullable": true, "example": "x", "xml": {"name": "n"}}}),
            ),
            [json!({"note": "a"})],
        ),
        shape(
            "very many fixed texts",
            object(
                json!({"zone": {"type": "string", "enum": (0..800).map(|n| format!("Zone/{n}")).collect::<Vec<_>>()}}),
            ),
            [json!({"zone": "Zone/799"})],
        ),
    ]
}

#[test]
fn every_shape_is_shown_in_a_form_that_all_providers_accept() {
    for Shape { what, schema, good } in corpus() {
        let schema = schema.as_object().unwrap();
        let shown = acceptable(schema).unwrap_or_else(|why| panic!("{what}: {why}"));
        assert_eq!(refusal(&shown), None, "{what}");
        for arguments in good {
            assert_eq!(
                validate(&arguments, schema),
                Ok(()),
                "{what}: the tool takes {arguments}"
            );
            assert_eq!(
                validate(&arguments, &with_null(&shown)),
                Ok(()),
                "{what}: {arguments} as shown {}",
                Value::Object(shown.clone())
            );
        }
    }
}

/// The shape as a model reads it.
fn shown(what: &str) -> Value {
    let shape = corpus()
        .into_iter()
        .find(|shape| shape.what == what)
        .unwrap();
    Value::Object(acceptable(shape.schema.as_object().unwrap()).unwrap())
}

#[test]
fn rules_without_a_common_keyword_are_said_in_words() {
    let of = |what: &str, name: &str| shown(what)["properties"][name].clone();
    let text = "formats, patterns, encodings, examples";
    assert_eq!(
        of(text, "mail"),
        json!({"type": "string", "description": "(format email; for example \"a@b.example\")"})
    );
    assert_eq!(
        of(text, "code")["description"],
        "(pattern ^[A-Z]{3}(?=-); at least 3 characters)"
    );
    assert_eq!(
        of(text, "list"),
        json!({"type": "array", "items": {"type": "string"}, "description": "(at least 1 items; at most 960 items; no item twice)"})
    );
    let typescript = "what a TypeScript validator writes";
    assert_eq!(
        of(typescript, "limit"),
        json!({"type": "integer", "description": "(at most 9007199254740991; more than 0; default 20)"})
    );
    assert_eq!(
        of(typescript, "mode"),
        json!({"type": "string", "enum": ["fast"]})
    );
    assert_eq!(
        of(typescript, "labels"),
        json!({"type": "object", "properties": {}, "description": "(any other fields, each of type string)"})
    );
    let optional = "optional values as a Python library writes them";
    assert_eq!(
        of(optional, "folder"),
        json!({"type": "string", "nullable": true, "description": "Folder"})
    );
    assert_eq!(
        of(optional, "ids"),
        json!({"anyOf": [
            {"type": "array", "items": {"type": "string"}, "nullable": true},
            {"type": "string", "nullable": true},
        ]})
    );
    assert_eq!(
        of("a constant for each alternative, with its meaning", "state"),
        json!({"type": "string", "enum": ["open", "closed"], "description": "(open: Not done; closed: Done)"})
    );
    let numbers = "numbers as alternatives";
    assert_eq!(
        of(numbers, "minutes"),
        json!({"type": "integer", "description": "(one of 60, 1440, 4320)"})
    );
    assert_eq!(
        of(numbers, "flag"),
        json!({"type": "boolean", "description": "(one of true)"})
    );
    assert_eq!(
        of("a referenced enum with a default beside it", "priority"),
        json!({"type": "string", "enum": ["low", "high"], "description": "How urgent (default \"low\")"})
    );
    assert_eq!(
        of("values of several types in one enum", "level"),
        json!({"anyOf": [
            {"type": "string", "nullable": true, "description": "(one of \"auto\", \"\")"},
            {"type": "integer", "nullable": true, "description": "(one of 1, 2)"},
        ]})
    );
    assert_eq!(
        of("a type that is a list", "value"),
        json!({"anyOf": [
            {"type": "string", "description": "(at most 5 characters)"},
            {"type": "number", "description": "(at least 1)"},
            {"type": "boolean"},
        ]})
    );
}

#[test]
fn an_argument_with_a_name_that_is_refused_is_left_out_unless_it_is_needed() {
    let shown = shown("names that some providers refuse");
    let names: Vec<&String> = shown["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id"]);
    let needed = json!({"properties": {"in": {"properties": {"a b": {}}, "required": ["a b"]}}});
    assert_eq!(
        acceptable(needed.as_object().unwrap()),
        Err(WhyNot::PropertyName)
    );
}

#[test]
fn words_for_rules_stay_short() {
    let long = json!({"properties": {
        "a": {"type": "string", "pattern": "x".repeat(500), "default": "y".repeat(500), "format": "uri"},
        "b": {"enum": (0..10_000).collect::<Vec<_>>()},
    }});
    let shown = acceptable(long.as_object().unwrap()).unwrap();
    assert_eq!(shown["properties"]["a"]["description"], "(format uri)");
    let words = shown["properties"]["b"]["description"].as_str().unwrap();
    assert!(
        words.ends_with("… (10000 in all))") && words.len() < 300,
        "{words}"
    );
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "string", "integer", "number", "boolean", "object", "array", "null"
        ])
        .prop_map(|kind| json!({"type": kind, "default": null, "format": "date"})),
        prop::sample::subsequence(vec!["string", "number", "null", "array", "object"], 0..4)
            .prop_map(|kinds| json!({"type": kinds, "minimum": 1, "maxLength": 3})),
        prop::collection::vec(
            prop_oneof![
                Just(json!("a")),
                Just(json!("")),
                Just(json!(1)),
                Just(json!(null)),
                Just(json!(true)),
                Just(json!([1]))
            ],
            1..4,
        )
        .prop_map(|values| json!({"enum": values})),
        Just(json!({"const": {"a": 1}})),
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"$ref": "#/$defs/node"})),
        Just(json!({"pattern": "^a"})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let named = prop::collection::btree_map("[a-c]{1,2}|\\$x", inner.clone(), 0..3);
        prop_oneof![
            (named.clone(), prop::collection::vec("[a-c]{1,2}", 0..2)).prop_map(|(properties, required)| {
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
            }),
            (named, list.clone()).prop_map(|(properties, branches)| json!({"properties": properties, "anyOf": branches})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 9})),
            list.clone().prop_map(|branches| json!({"anyOf": branches, "description": "d"})),
            list.clone().prop_map(|branches| json!({"oneOf": branches, "type": "object"})),
            list.clone().prop_map(|parts| json!({"allOf": parts})),
            list.prop_map(|items| json!({"prefixItems": items, "title": "t"})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn whatever_is_shown_no_provider_refuses(top in any_schema(), node in any_schema()) {
        if let Value::Object(mut schema) = top {
            schema.insert("$defs".to_owned(), json!({"node": node}));
            if let Ok(shown) = acceptable(&schema) {
                prop_assert_eq!(refusal(&shown), None, "{}", Value::Object(schema));
            }
        }
    }
}
