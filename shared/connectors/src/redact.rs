//! A server that quotes our token back does not make it known any further.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use toshi_core::{ToolDefinition, WireFault};

use crate::answer::ToolAnswer;

const INSTEAD: &str = "[removed]";

/// Takes one token out of what is handed on: to rows, to people, to the model, to the log.
#[derive(Clone, Copy)]
pub(crate) struct Redact<'a>(pub(crate) &'a SecretString);

impl Redact<'_> {
    fn text(self, text: &mut String) {
        let token = self.0.expose_secret();
        if !token.is_empty() && text.contains(token) {
            *text = text.replace(token, INSTEAD);
        }
    }

    fn value(self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn members(self, members: &mut Map<String, Value>) {
        let clean = |(mut name, mut value)| {
            self.text(&mut name);
            self.value(&mut value);
            (name, value)
        };
        *members = std::mem::take(members).into_iter().map(clean).collect();
    }

    pub(crate) fn answer(self, mut answer: ToolAnswer) -> ToolAnswer {
        self.text(&mut answer.text);
        if let Some(structured) = &mut answer.structured {
            self.value(structured);
        }
        answer
    }

    pub(crate) fn fault(self, mut fault: WireFault) -> WireFault {
        match &mut fault {
            WireFault::NotSent(text)
            | WireFault::Unfinished(text)
            | WireFault::Other(text)
            | WireFault::Rpc { message: text, .. } => self.text(text),
            WireFault::HttpStatus { .. }
            | WireFault::Timeout
            | WireFault::Cut
            | WireFault::TooLarge => {}
        }
        fault
    }

    pub(crate) fn definition(self, mut tool: ToolDefinition) -> ToolDefinition {
        for text in [&mut tool.title, &mut tool.description]
            .into_iter()
            .flatten()
        {
            self.text(text);
        }
        self.members(&mut tool.input_schema);
        if let Some(hints) = &mut tool.annotations {
            self.value(hints);
        }
        tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_token_is_taken_out_wherever_it_stands() {
        let secret = SecretString::from("s3cret-token");
        let redact = Redact(&secret);
        let answer = redact.answer(ToolAnswer {
            text: "you sent Bearer s3cret-token, s3cret-token!".to_owned(),
            structured: Some(json!({"s3cret-token": ["x s3cret-token", 1, null, {"a": "s3cret"}]})),
            is_error: true,
        });
        assert_eq!(answer.text, "you sent Bearer [removed], [removed]!");
        let structured = json!({"[removed]": ["x [removed]", 1, null, {"a": "s3cret"}]});
        assert_eq!(answer.structured, Some(structured));
        assert!(answer.is_error);
        let fault = redact.fault(WireFault::Rpc {
            code: -32603,
            message: "bad s3cret-token".to_owned(),
            status: 200,
        });
        assert!(!format!("{fault:?}").contains("s3cret"));
        let tool = redact.definition(ToolDefinition {
            name: "a".to_owned(),
            title: Some("s3cret-token".to_owned()),
            description: Some("for s3cret-token".to_owned()),
            input_schema: [("default".to_owned(), json!("s3cret-token"))]
                .into_iter()
                .collect(),
            annotations: Some(json!({"x": "s3cret-token"})),
        });
        assert!(!format!("{tool:?}").contains("s3cret"), "{tool:?}");
    }

    #[test]
    fn nothing_else_is_changed() {
        let text = "as it was";
        for secret in ["", "other"] {
            let secret = SecretString::from(secret);
            let mut kept = text.to_owned();
            Redact(&secret).text(&mut kept);
            assert_eq!(kept, text);
        }
    }
}
