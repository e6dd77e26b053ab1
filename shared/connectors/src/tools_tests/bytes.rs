//! Answers byte by byte, over a socket.

use super::*;

/// A response with this body, in chunks of these bytes each; `0`: with its length instead.
fn response(kind: &str, chunk: usize, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 X\r\n{kind}\r\n").into_bytes();
    if chunk == 0 {
        bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend(body);
        return bytes;
    }
    bytes.extend(b"transfer-encoding: chunked\r\n\r\n");
    for part in body.chunks(chunk) {
        bytes.extend(format!("{:X};x=y\r\n", part.len()).bytes());
        bytes.extend(part);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

const JSON: &str = "content-type: application/json";
const EVENTS: &str = "content-type: text/event-stream";

/// `text` compressed by gzip, stored as it is.
fn gzip(text: &str) -> Vec<u8> {
    let mut bytes = b"\x1F\x8B\x08\0\0\0\0\0\0\xFF\x01".to_vec();
    let length = u16::try_from(text.len()).unwrap();
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded { text, .. } if text == "zoë ❤" => "succeeded",
        Outcome::Succeeded { .. } => "garbled",
        Outcome::ReportedError { .. } => "reported",
        Outcome::Refused { .. } => "refused",
        Outcome::NotSent { .. } => "not sent",
        Outcome::Unknown { .. } => "unknown",
    }
}

#[tokio::test]
async fn an_answer_means_the_same_in_one_piece_and_in_many_for_reads_and_for_writes() {
    const DONE: [&str; 2] = ["succeeded", "succeeded"];
    const LOST: [&str; 2] = ["unknown", "refused"];
    const REFUSED: [&str; 2] = ["refused", "refused"];
    // A write's call follows initialize and the list, a read's follows initialize alone.
    let answer = |id: i64| {
        let content = json!([{"type": "text", "text": "zoë ❤"}]);
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}).to_string()
    };
    let error = |id: i64, code: i64| {
        let error = json!({"code": code, "message": "no"});
        json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
    };
    let event = |text: &str| format!(": x\r\nid: 1\r\ndata: {text}\r\n\r\n").into_bytes();
    let rows = |id: i64| -> Vec<(&str, Vec<u8>, [&'static str; 2])> {
        let text = answer(id);
        let body = text.as_bytes();
        let events = event(&text);
        let page = "content-type: text/html";
        let zipped = |kind: &str| format!("content-encoding: gzip\r\n{kind}");
        let mut invalid = text.replace('ë', "?").into_bytes();
        for byte in &mut invalid {
            if *byte == b'?' {
                *byte = 0xFF;
            }
        }
        let mut short = response(JSON, 0, body);
        short.truncate(short.len() - 1);
        let mut open = response(EVENTS, 5, &events);
        open.truncate(open.len() - 5);
        let early = b"HTTP/1.1 103 X\r\nlink: </a>\r\n\r\n".to_vec();
        let status = |status: &str, kind: &str, body: &[u8]| {
            let text = response(kind, 0, body);
            [b"HTTP/1.1 ".as_slice(), status.as_bytes(), &text[12..]].concat()
        };
        vec![
            ("JSON", response(JSON, 0, body), DONE),
            ("JSON in chunks", response(JSON, 3, body), DONE),
            ("events", response(EVENTS, 0, &events), DONE),
            ("events in chunks", response(EVENTS, 1, &events), DONE),
            (
                "events to the end of the connection",
                [
                    b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n",
                    events.as_slice(),
                ]
                .concat(),
                DONE,
            ),
            (
                "a type in another spelling",
                response(
                    "Content-Type:  Application/JSON ; charset=\"utf-8\"",
                    0,
                    body,
                ),
                DONE,
            ),
            (
                "an event type with parameters",
                response("content-type: text/event-stream;charset=UTF-8", 7, &events),
                DONE,
            ),
            (
                "after an early head",
                [early, response(JSON, 0, body)].concat(),
                DONE,
            ),
            ("events without a last chunk", open, DONE),
            (
                "JSON that says it is events",
                response(EVENTS, 0, body),
                LOST,
            ),
            (
                "events that say they are JSON",
                response(JSON, 0, &events),
                LOST,
            ),
            ("a page", response(page, 0, body), LOST),
            ("no type", response("x: y", 0, body), LOST),
            (
                "zipped JSON",
                response(&zipped(JSON), 0, &gzip(&text)),
                LOST,
            ),
            (
                "zipped events",
                response(&zipped(EVENTS), 9, &gzip(&text)),
                LOST,
            ),
            ("invalid letters", response(JSON, 0, &invalid), LOST),
            (
                "a byte order mark",
                response(JSON, 0, &[b"\xEF\xBB\xBF", body].concat()),
                LOST,
            ),
            ("twice", response(JSON, 0, &[body, body].concat()), LOST),
            (
                "more than JSON",
                response(JSON, 0, &[body, b"x"].concat()),
                LOST,
            ),
            (
                "a batch",
                response(JSON, 0, &[b"[", body, b"]"].concat()),
                LOST,
            ),
            ("nothing", response(JSON, 0, b""), LOST),
            ("half", response(JSON, 0, &body[..20]), LOST),
            ("one byte short", short, LOST),
            ("another's", response(JSON, 0, answer(99).as_bytes()), LOST),
            (
                "a head alone",
                b"HTTP/1.1 200 X\r\ncontent-type".to_vec(),
                LOST,
            ),
            ("no HTTP", b"SSH-2.0-server\r\n\r\n".to_vec(), LOST),
            (
                "two lengths",
                response(&format!("{JSON}\r\ncontent-length: 5"), 0, body),
                LOST,
            ),
            (
                "a bad chunk",
                [&response(JSON, 3, body)[..90], b"zz"].concat(),
                LOST,
            ),
            ("no content", b"HTTP/1.1 204 X\r\n\r\n".to_vec(), LOST),
            (
                "an error that may come late",
                response(JSON, 0, error(id, -32603).as_bytes()),
                LOST,
            ),
            (
                "the same in events",
                response(EVENTS, 2, &event(&error(id, -32603))),
                LOST,
            ),
            (
                "a definite error",
                response(JSON, 0, error(id, -32602).as_bytes()),
                REFUSED,
            ),
            (
                "the same in events",
                response(EVENTS, 2, &event(&error(id, -32602))),
                REFUSED,
            ),
            (
                "a status, in events",
                status("429", EVENTS, &event(&error(id, -32603))),
                REFUSED,
            ),
            (
                "a status, in JSON",
                status("403", JSON, error(id, -32603).as_bytes()),
                REFUSED,
            ),
            (
                "a failure, in events",
                status("500", EVENTS, &event(&error(id, -32602))),
                LOST,
            ),
        ]
    };
    for (access, id) in [(Access::Write, 2), (Access::Read, 1)] {
        for (name, bytes, expected) in rows(id) {
            for size in [usize::MAX, 1, 13] {
                let bench = Bench::new().await;
                let pieces = bytes.chunks(size.min(bytes.len())).map(<[u8]>::to_vec);
                bench
                    .server
                    .once("tools/call", Reply::Raw(pieces.collect()));
                let seen = match access {
                    Access::Write => bench.write().await,
                    Access::Read => bench.read().await,
                };
                let outcome = settle(told(seen).result, access);
                let wanted = expected[usize::from(access == Access::Read)];
                assert_eq!(
                    kind(&outcome),
                    wanted,
                    "{name} for a {access:?}, by {size}: {outcome:?}"
                );
                assert_eq!(bench.calls(), 1, "{name} for a {access:?}, by {size}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_only_keeps_alive_is_left_in_time() {
    for access in [Access::Write, Access::Read] {
        let bench = Bench::new().await;
        let parts = vec![Part::Each(Duration::from_millis(500), ": keep-alive\n\n")];
        bench.server.once(
            "tools/call",
            Reply::Events {
                parts,
                finish: false,
            },
        );
        // Opened before time is only told.
        let _ = bench.tools.list(&bench.target()).await.unwrap();
        let call = async {
            match access {
                Access::Write => bench.write().await,
                Access::Read => bench.read().await,
            }
        };
        let (seen, started) = tokio::join!(call, async {
            bench.server.saw("tools/call", 1).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            tokio::time::pause();
            tokio::time::Instant::now()
        });
        let within = Duration::from_millis(TOOL_TIMEOUT_MS.unsigned_abs());
        assert_eq!(fault(seen), WireFault::Timeout);
        assert!(started.elapsed() <= within, "{:?}", started.elapsed());
        assert_eq!(bench.calls(), 1);
        tokio::time::resume();
    }
}
