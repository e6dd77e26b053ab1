//! Tool definitions as a server lists them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use toshi_core::{ToolDefinition, WireFault};

use crate::answer;
use crate::headers::repeated;

const NAME_MAX: usize = 128;

pub(crate) struct Page {
    pub(crate) tools: Vec<ToolDefinition>,
    pub(crate) next: Option<String>,
}

/// Reads one page from the JSON itself: the pin must cover what the server said, not what a library
/// kept of it. A tool that cannot be read is left out alone.
pub(crate) fn page(result: &Value) -> Result<Page, WireFault> {
    answer::is_complete(result)?;
    let listed = result
        .get("tools")
        .and_then(Value::as_array)
        .ok_or_else(|| WireFault::Other("the answer is not a list of tools".to_owned()))?;
    let tools = listed.iter().filter_map(read).collect();
    let next = result
        .get("nextCursor")
        .and_then(Value::as_str)
        .filter(|cursor| !cursor.is_empty())
        .map(str::to_owned);
    Ok(Page { tools, next })
}

fn read(tool: &Value) -> Option<ToolDefinition> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").filter(|name| !name.is_empty() && name.len() <= NAME_MAX);
    let schema = tool.get("inputSchema").and_then(Value::as_object);
    let (Some(name), Some(schema)) = (name, schema) else {
        tracing::warn!("a listed tool has no usable name or schema and is left out");
        return None;
    };
    Some(ToolDefinition {
        name,
        title: text("title"),
        description: text("description"),
        input_schema: schema.clone(),
        annotations: tool
            .get("annotations")
            .filter(|hints| !hints.is_null())
            .cloned(),
    })
}

/// Leaves out every tool whose name is listed more than once: which one a call would reach, the
/// server alone knows.
pub(crate) fn unambiguous(tools: Vec<ToolDefinition>) -> Vec<ToolDefinition> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for tool in &tools {
        *counts.entry(&tool.name).or_default() += 1;
    }
    let twice: HashSet<String> = counts
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(name, _)| (*name).to_owned())
        .collect();
    for name in &twice {
        tracing::warn!(tool = name, "a tool is listed twice and is left out");
    }
    tools
        .into_iter()
        .filter(|tool| !twice.contains(&tool.name))
        .collect()
}

/// Leaves out every tool whose schema asks for headers wrongly, as the stateless protocol demands.
pub(crate) fn repeatable(mut tools: Vec<ToolDefinition>) -> Vec<ToolDefinition> {
    tools.retain(|tool| match repeated(&tool.input_schema) {
        Ok(_) => true,
        Err(why) => {
            tracing::warn!(
                tool = tool.name,
                why,
                "a tool asks for headers wrongly and is left out"
            );
            false
        }
    });
    tools
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bad_tool_is_left_out_alone() {
        let good = json!({"name": "a", "inputSchema": {"type": "object"}, "outputSchema": 5});
        let result = json!({"tools": [
            {"name": "", "inputSchema": {}}, {"name": "b"}, {"name": "c", "inputSchema": []},
            "d", null, good
        ]});
        let names: Vec<_> = page(&result)
            .unwrap()
            .tools
            .into_iter()
            .map(|tool| tool.name)
            .collect();
        assert_eq!(names, ["a"]);
        assert!(page(&json!({"tools": {}})).is_err());
    }

    #[test]
    fn the_pin_covers_hints_that_no_library_knows() {
        let tool = |hint: Value| {
            let one = json!({"name": "a", "inputSchema": {}, "annotations": {"newHint": hint}});
            page(&json!({"tools": [one]}))
                .unwrap()
                .tools
                .remove(0)
                .hash()
                .unwrap()
        };
        assert_ne!(tool(json!(true)), tool(json!(false)));
    }

    #[test]
    fn a_name_that_is_listed_twice_is_offered_by_neither() {
        let tool = |name: &str, description: &str| json!({"name": name, "description": description, "inputSchema": {}});
        let result = json!({"tools": [tool("a", "1"), tool("b", "2"), tool("a", "3")]});
        let left = unambiguous(page(&result).unwrap().tools);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].name, "b");
    }
}
