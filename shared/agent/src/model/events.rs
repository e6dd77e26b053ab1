//! Server-sent events from bytes as they come
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>).
//!
//! How the bytes are cut makes no difference to what is read. Of an event only its data counts
//! here; comments and other fields, known or not, are skipped as the standard says. What stands
//! after the last blank line is half an event and no event.

/// One event's data, and the bytes of the stream up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) data: Vec<u8>,
    pub(super) end: usize,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    /// The line under way.
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    /// Bytes seen.
    seen: usize,
    past_first_line: bool,
    /// The last line ended with CR: a LF right after it belongs to it.
    after_cr: bool,
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

impl Events {
    /// Takes bytes; the events that they complete come back, in order.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for byte in bytes {
            self.seen += 1;
            let second_of_crlf = std::mem::take(&mut self.after_cr) && *byte == b'\n';
            match byte {
                b'\n' if second_of_crlf => {}
                b'\n' | b'\r' => {
                    self.after_cr = *byte == b'\r';
                    events.extend(self.end_line());
                }
                _ => self.line.push(*byte),
            }
        }
        events
    }

    pub(super) const fn seen(&self) -> usize {
        self.seen
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let line = if std::mem::replace(&mut self.past_first_line, true) {
            line.as_slice()
        } else {
            line.strip_prefix(BOM).unwrap_or(&line)
        };
        if line.is_empty() {
            let data = self.data.take()?;
            let end = self.seen;
            return Some(Event { data, end });
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        if parts.next() == Some(b"data") {
            let value = parts.next().unwrap_or_default();
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &[u8]) -> Vec<String> {
        let events = Events::default().feed(stream);
        let text = |event: Event| String::from_utf8(event.data).unwrap();
        events.into_iter().map(text).collect()
    }

    #[test]
    fn lines_end_in_all_three_ways_and_a_mark_at_the_start_is_skipped() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!("\u{feff}data: a{end}{end}data: b{end}data:c{end}{end}");
            assert_eq!(read(stream.as_bytes()), ["a", "b\nc"], "{end:?}");
        }
        assert_eq!(read(b"data: a\r\n\ndata: b\n\r\n"), ["a", "b"]);
        assert_eq!(read("\n\u{feff}data: a\n\n".as_bytes()), [""; 0]);
    }

    #[test]
    fn comments_and_other_fields_are_skipped_and_one_space_after_the_colon_too() {
        let stream = b": ping\nevent: e\nid: 1\nretry: soon\nretry: 3\nmade-up: x\nodd\ndata:  a: b\n\n\n\n: end\n\n";
        assert_eq!(read(stream), [" a: b"]);
        assert_eq!(read(b"data\n\ndata:\n\ndata: \ndata\n\n"), ["", "", "\n"]);
        assert_eq!(read(b"dataset: x\n\n data: y\n\n"), [""; 0]);
    }

    #[test]
    fn half_an_event_at_the_end_is_none() {
        assert_eq!(read(b"data: a\n\ndata: b\n"), ["a"]);
        assert_eq!(read(b"data: a\n\ndata: b"), ["a"]);
        // A lone CR at the very end closes a line, whatever may follow.
        assert_eq!(read(b"data: a\r\r"), ["a"]);
    }

    #[test]
    fn an_event_knows_where_it_ends() {
        let events = Events::default().feed(b"data: a\r\n\r\n: x\n\ndata: b\n\n");
        let ends: Vec<usize> = events.iter().map(|event| event.end).collect();
        // The LF of the blank line's CRLF is not needed to end the event.
        assert_eq!(ends, [10, 25]);
    }
}
