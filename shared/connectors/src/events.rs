//! Server-sent events, as the HTML standard reads them: what a stream says does not depend on how
//! its bytes are cut into chunks, and nothing that it says makes the rest of it unreadable.

use sse_stream::Sse;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Reads a stream's bytes as they come. Its caller bounds them.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The last byte was a CR: an LF after it ends no second line.
    after_cr: bool,
    begun: bool,
    kind: Option<String>,
    data: Option<String>,
}

impl Parser {
    /// The events that these bytes complete. An event without its empty line is none.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Sse> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if std::mem::take(&mut self.after_cr) {
            match rest.split_first() {
                Some((b'\n', after)) => rest = after,
                Some(_) => {}
                None => self.after_cr = true,
            }
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, after) = rest.split_at(end);
            self.line.extend_from_slice(line);
            events.extend(self.end_line());
            rest = match after {
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => after,
            };
            self.after_cr = rest.is_empty() && after == b"\r";
        }
        self.line.extend_from_slice(rest);
        events
    }

    fn end_line(&mut self) -> Option<Sse> {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if !self.begun {
            self.begun = true;
            text = text.strip_prefix(BOM).unwrap_or(text);
        }
        if text.is_empty() {
            let kind = self.kind.take().filter(|kind| !kind.is_empty());
            let data = self.data.take()?;
            return Some(Sse {
                event: kind,
                data: Some(data),
                ..Sse::default()
            });
        }
        let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
        let value = text.get(name.len() + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                let value = String::from_utf8_lossy(value);
                match &mut self.data {
                    None => self.data = Some(value.into_owned()),
                    Some(data) => {
                        data.push('\n');
                        data.push_str(&value);
                    }
                }
            }
            b"event" => self.kind = Some(String::from_utf8_lossy(value).into_owned()),
            // A comment, what only a client that resumes needs, or what nobody knows.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
