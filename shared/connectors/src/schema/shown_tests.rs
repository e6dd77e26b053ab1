use serde_json::{Value, json};

use super::*;
use crate::schema::validate;

fn rewritten(schema: Value) -> Result<Value, WhyNot> {
    acceptable(schema.as_object().unwrap()).map(Value::Object)
}

/// A value of which nothing is known.
fn anything() -> Value {
    let one = [
        json!({"type": "string"}),
        json!({"type": "number"}),
        json!({"type": "boolean"}),
        json!({"type": "object", "properties": {}}),
    ];
    let list = json!({"type": "array", "items": {"anyOf": one}});
    let mut all = one.to_vec();
    all.push(list);
    json!({"anyOf": all})
}

#[test]
fn a_plain_schema_stays_as_it_is_but_for_rules_that_are_said_in_words() {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "format": "made-up", "default": {"$ref": "x"}}},
        "required": ["text"],
        "additionalProperties": false
    });
    let shown = json!({
        "type": "object",
        "properties": {"text": {
            "type": "string", "description": "(format made-up; default {\"$ref\":\"x\"})"
        }},
        "required": ["text"]
    });
    assert_eq!(rewritten(schema), Ok(shown.clone()));
    assert_eq!(rewritten(shown.clone()), Ok(shown), "once is enough");
}

#[test]
fn an_empty_schema_takes_no_arguments() {
    let expected = json!({"type": "object", "properties": {}});
    assert_eq!(rewritten(json!({})), Ok(expected.clone()));
    assert_eq!(
        rewritten(json!({"type": "object", "$id": "urn:x", "x-y": 1})),
        Ok(expected.clone())
    );
    assert_eq!(
        rewritten(json!({"type": ["object", "null"], "required": ["gone"]})),
        Ok(expected)
    );
}

#[test]
fn a_property_may_be_called_like_a_keyword() {
    let schema = json!({"type": "object", "properties": {
        "properties": {"type": "string"}, "anyOf": {"type": "string"}, "x-y": {"type": "number"}
    }});
    assert_eq!(rewritten(schema.clone()), Ok(schema));
}

#[test]
fn local_references_are_put_in_place() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/Id", "description": "which"},
            "b": {"type": "array", "items": {"$ref": "#/definitions/Pair"}}
        },
        "$defs": {"Id": {"type": "string"}},
        "definitions": {"Pair": {"type": "object", "properties": {"id": {"$ref": "#/$defs/Id"}}}}
    });
    assert_eq!(
        rewritten(schema),
        Ok(json!({"type": "object", "properties": {
            "a": {"type": "string", "description": "which"},
            "b": {"type": "array", "items": {
                "type": "object", "properties": {"id": {"type": "string"}}
            }}
        }}))
    );
}

#[test]
fn a_recursive_reference_accepts_anything_below() {
    let schema = json!({"$ref": "#/$defs/Tree", "$defs": {"Tree": {
        "type": "object", "properties": {"below": {"$ref": "#/$defs/Tree"}}
    }}});
    assert_eq!(
        rewritten(schema),
        Ok(json!({"type": "object", "properties": {"below": anything()}}))
    );
    let root = json!({"type": "object", "properties": {"below": {"$ref": "#"}}});
    let expected = json!({"type": "object", "properties": {"below": {
        "type": "object", "properties": {"below": anything()}
    }}});
    assert_eq!(rewritten(root), Ok(expected));
}

#[test]
fn alternatives_at_the_top_become_one_object() {
    for keyword in ["anyOf", "oneOf"] {
        let schema = json!({
            "type": "object",
            "properties": {"base": {"type": "string"}},
            "required": ["base"],
            keyword: [
                {"properties": {"id": {"type": "string"}, "both": {"type": "null"}},
                 "required": ["id", "both"]},
                {"properties": {"id": {"type": "integer"}, "both": {"type": "null"}},
                 "required": ["both"]}
            ]
        });
        assert_eq!(
            rewritten(schema),
            Ok(json!({
                "type": "object",
                "properties": {
                    "base": {"type": "string"},
                    "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    "both": {"type": "string", "nullable": true}
                },
                "required": ["base", "both"]
            }))
        );
    }
}

#[test]
fn parts_at_the_top_are_joined_unless_they_contradict() {
    let schema = json!({"allOf": [
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"$ref": "#/$defs/B"}
    ], "$defs": {"B": {"type": "object", "properties": {"b": {}}, "required": ["b"]}}});
    let expected = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": anything()},
        "required": ["a", "b"]
    });
    assert_eq!(rewritten(schema), Ok(expected));
    let contradiction = json!({"allOf": [
        {"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "number"}}}
    ]});
    assert_eq!(rewritten(contradiction), Err(WhyNot::Contradiction));
}

#[test]
fn what_cannot_be_rewritten_says_why() {
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "array", "items": deep});
    }
    // Each level refers to the next one twice: small to write, huge when put in place.
    let mut bomb = serde_json::Map::new();
    for level in 0..30 {
        let next = format!("#/$defs/d{}", level + 1);
        let pair = json!({"properties": {"a": {"$ref": next}, "b": {"$ref": next}}});
        bomb.insert(format!("d{level}"), pair);
    }
    bomb.insert("d30".to_owned(), json!({"type": "string"}));
    let rows = [
        (json!({"type": "string"}), WhyNot::NotAnObject),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "object"}]}),
            WhyNot::NotAnObject,
        ),
        (
            json!({"properties": {"a": {"$ref": "https://x.example/s.json"}}}),
            WhyNot::RemoteReference,
        ),
        (
            json!({"properties": {"a": {"$ref": "other.json#/a"}}}),
            WhyNot::RemoteReference,
        ),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
            WhyNot::BrokenReference,
        ),
        (json!({"properties": {"a": {"$ref": 5}}}), WhyNot::Malformed),
        (json!({"properties": {"a": "string"}}), WhyNot::Malformed),
        (
            json!({"properties": {"a b": {}}, "required": ["a b"]}),
            WhyNot::PropertyName,
        ),
        (
            json!({"properties": {"a": {"anyOf": []}}}),
            WhyNot::Malformed,
        ),
        (
            json!({"properties": {"a": {"type": "text"}}}),
            WhyNot::Malformed,
        ),
        (
            json!({"properties": {"a": {"pattern": "("}}}),
            WhyNot::Malformed,
        ),
        (json!({"properties": {"a": deep}}), WhyNot::TooDeep),
        (json!({"description": "x".repeat(40_000)}), WhyNot::TooLarge),
    ];
    for (schema, why) in rows {
        assert_eq!(rewritten(schema), Err(why));
    }
    let bomb = rewritten(json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": bomb}));
    assert!(matches!(bomb, Err(WhyNot::TooLarge | WhyNot::TooDeep)));
}

#[test]
fn what_the_tool_accepts_the_shown_schema_accepts_too() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/To"}, "never": false, "any": true},
        "oneOf": [{"required": ["to"]}, {"properties": {"all": {"const": true}}, "required": ["all"]}],
        "$defs": {"To": {"oneOf": [{"type": "string"}, {"type": "array", "items": [{"type": "string"}]}]}}
    });
    let original = schema.as_object().unwrap();
    let shown = acceptable(original).unwrap();
    for arguments in [
        json!({"to": "a"}),
        json!({"to": ["a"], "any": 1}),
        json!({"all": true}),
    ] {
        assert_eq!(validate(&arguments, original), Ok(()));
        assert_eq!(validate(&arguments, &shown), Ok(()));
    }
}
