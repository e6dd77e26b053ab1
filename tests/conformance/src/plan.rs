//! Which calls are made of what was listed.

use anyhow::Context;
use serde_json::{Map, Value, json};
use toshi_core::ToolDefinition;

/// The calls that the suite's context names, if it names any.
pub(crate) fn wanted(context: &str) -> anyhow::Result<Option<Vec<(String, Value)>>> {
    let context: Value = serde_json::from_str(context).context("the context is not JSON")?;
    let Some(calls) = context.get("toolCalls").and_then(Value::as_array) else {
        return Ok(None);
    };
    let read = |call: &Value| {
        let name = call.get("name")?.as_str()?.to_owned();
        Some((name, call.get("arguments")?.clone()))
    };
    let calls: Option<Vec<_>> = calls.iter().map(read).collect();
    Ok(Some(
        calls.context("a wanted call has no name or arguments")?,
    ))
}

/// Each tool once, with something for every argument that it requires.
pub(crate) fn of(listed: &[ToolDefinition]) -> Vec<(String, Value)> {
    let call = |tool: &ToolDefinition| (tool.name.clone(), arguments(tool, listed));
    listed.iter().map(call).collect()
}

fn arguments(tool: &ToolDefinition, listed: &[ToolDefinition]) -> Value {
    if tool.name == "json_schema_echo" {
        // It wants to see what this client kept of the other tool's schema.
        let other = listed.iter().find(|other| other.name != tool.name);
        return json!({"schema": other.map(|other| &other.input_schema)});
    }
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let sample = |name: &str| {
        (
            name.to_owned(),
            sample(tool.input_schema.get("properties"), name),
        )
    };
    Value::Object(names.map(sample).collect::<Map<String, Value>>())
}

fn sample(properties: Option<&Value>, name: &str) -> Value {
    let kind = properties
        .and_then(|properties| properties.get(name)?.get("type")?.as_str())
        .unwrap_or("string");
    match kind {
        "integer" | "number" => json!(5),
        "boolean" => json!(true),
        "array" => json!([]),
        "object" => json!({}),
        "null" => Value::Null,
        _ => json!("sample"),
    }
}
