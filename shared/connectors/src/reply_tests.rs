use futures::stream;
use proptest::prelude::*;
use serde_json::json;
use toshi_core::{Access, Outcome};

use super::*;
use crate::answer::ToolAnswer;
use crate::settle;

#[test]
fn only_an_answer_to_this_request_counts() {
    let id = json!(7);
    let ok = |message: Value| answer_to(&message, &id, 200);
    assert_eq!(
        ok(json!({"id": 7, "result": {"a": 1}})),
        Some(Ok(json!({"a": 1})))
    );
    assert_eq!(ok(json!({"id": "7", "result": {}})), Some(Ok(json!({}))));
    for nothing in [
        json!({"id": 8, "result": {}}),
        json!({"id": null, "result": {}}),
        json!({"id": null, "result": {}, "error": null}),
        json!({"result": {}}),
        json!({"id": 7, "result": "text"}),
        json!({"id": 7, "result": null, "error": null}),
        json!({"id": 7, "error": {"code": "-32602", "message": "no"}}),
        json!({"id": 7, "method": "ping", "result": {}}),
        json!({"id": 8, "error": {"code": -32602, "message": "no"}}),
        json!({"id": [7], "result": {}}),
        json!([{"id": 7, "result": {}}]),
        json!("text"),
        Value::Null,
    ] {
        assert_eq!(ok(nothing.clone()), None, "{nothing}");
    }
    let fault = WireFault::Rpc {
        code: -32602,
        message: "no".to_owned(),
        status: 200,
    };
    for error_id in [json!(7), json!("7"), Value::Null] {
        let message = json!({"id": error_id, "error": {"code": -32602, "message": "no"}});
        assert_eq!(ok(message), Some(Err(fault.clone())));
    }
    let empty = json!({"id": 7, "result": {}, "error": null});
    assert_eq!(ok(empty), Some(Ok(json!({}))), "no error is no error");
    let both = json!({"id": 7, "result": {}, "error": {"code": -32602, "message": "no"}});
    assert!(matches!(ok(both), Some(Err(WireFault::Other(_)))));
}

#[test]
fn a_media_type_is_read_without_its_parameters_and_in_any_case() {
    let named = |text: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
        match media(&headers) {
            Media::Json => "json",
            Media::Events => "events",
            Media::Other => "other",
        }
    };
    for (text, expected) in [
        ("application/json", "json"),
        ("application/json;charset=utf-8", "json"),
        ("Application/JSON ; x=\"a;b\"", "json"),
        (" text/event-stream", "events"),
        ("text/event-stream; charset=UTF-8", "events"),
        ("TEXT/EVENT-STREAM;", "events"),
        ("text/event-streams", "other"),
        ("application/json-rpc", "other"),
        ("application/problem+json", "other"),
        ("text/html, application/json", "other"),
        ("json", "other"),
        ("", "other"),
    ] {
        assert_eq!(named(text), expected, "{text:?}");
    }
    assert!(matches!(media(&HeaderMap::new()), Media::Other));
}

type Seen = Result<Value, WireFault>;

/// What is known of a call whose answer came in these chunks, and how the stream ended.
async fn told(chunks: Vec<Result<Bytes, std::io::Error>>) -> Seen {
    let body = reqwest::Body::wrap_stream(stream::iter(chunks));
    let response = reqwest::Response::from(http::Response::new(body));
    let shot = Shot::question();
    assert!(shot.spend(&json!({}), false).is_ok());
    let events = watched_events(response, Some(shot.clone()), json!(7));
    let _: Vec<_> = events.collect().await;
    let seen = shot.close(WireFault::Other("still open".to_owned()));
    seen.map_err(|fault| fault.wire)
}

async fn in_chunks(bytes: &[u8], size: usize) -> Seen {
    let chunks = bytes.chunks(size);
    told(
        chunks
            .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
            .collect(),
    )
    .await
}

/// Whole, byte by byte, and cut in two at each place: always the same.
async fn every_way(name: &str, bytes: &[u8]) -> Seen {
    let whole = in_chunks(bytes, bytes.len().max(1)).await;
    assert_eq!(in_chunks(bytes, 1).await, whole, "{name}, byte by byte");
    for cut in 1..bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        let halves = [head, tail].map(|half| Ok(Bytes::copy_from_slice(half)));
        assert_eq!(told(halves.into()).await, whole, "{name}, cut at {cut}");
    }
    whole
}

fn answer(id: i64, text: &str) -> String {
    let content = json!([{"type": "text", "text": text}]);
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}).to_string()
}

fn error(id: Value, code: i64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}).to_string()
}

/// What a write and a read become.
fn outcomes(seen: &Seen) -> [&'static str; 2] {
    [Access::Write, Access::Read].map(|access| {
        let answer = seen.clone().and_then(|result| ToolAnswer::read(&result));
        match settle(answer, access) {
            Outcome::Succeeded { .. } => "succeeded",
            Outcome::ReportedError { .. } => "reported",
            Outcome::Refused { .. } => "refused",
            Outcome::NotSent { .. } => "not sent",
            Outcome::Unknown { .. } => "unknown",
        }
    })
}

#[tokio::test]
async fn an_event_stream_means_the_same_however_its_bytes_arrive() {
    const DONE: [&str; 2] = ["succeeded", "succeeded"];
    const LOST: [&str; 2] = ["unknown", "refused"];
    const REFUSED: [&str; 2] = ["refused", "refused"];
    let ours = answer(7, "done");
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage"});
    let pretty = serde_json::to_string_pretty(&json!({"jsonrpc": "2.0", "id": 7,
        "result": {"content": [{"type": "text", "text": "done"}]}}));
    let pretty = pretty.unwrap().replace('\n', "\ndata: ");
    let rows: Vec<(&str, String, &str, [&str; 2])> = vec![
        ("plain", format!("data: {ours}\n\n"), "done", DONE),
        (
            "dressed",
            format!(
                "\u{FEFF}: hi\nid: 1\ndata:\n\nevent: message\nid: 2\nretry: 9\ndata: {ours}\n\n"
            ),
            "done",
            DONE,
        ),
        (
            "CRLF",
            format!("id: 1\r\ndata: {ours}\r\n\r\n"),
            "done",
            DONE,
        ),
        ("CR", format!("id: 1\rdata: {ours}\r\r"), "done", DONE),
        ("in lines", format!("data: {pretty}\n\n"), "done", DONE),
        (
            "letters of several bytes",
            format!("data: {}\n\n", answer(7, "zoë ❤ 𝄞")),
            "zoë ❤ 𝄞",
            DONE,
        ),
        (
            "after notices and requests",
            format!("data: {notice}\n\ndata: {request}\n\ndata: {ours}\n\n"),
            "done",
            DONE,
        ),
        (
            "after another's",
            format!("data: {}\n\ndata: {ours}\n\n", answer(8, "other")),
            "done",
            DONE,
        ),
        (
            "after what is no message",
            format!(
                "data: hello\n\ndata: {{\"id\": 7\n\ndata: [1]\n\nmood: good\n\ndata: {ours}\n\n"
            ),
            "done",
            DONE,
        ),
        (
            "two answers",
            format!("data: {ours}\n\ndata: {}\n\n", answer(7, "again")),
            "done",
            DONE,
        ),
        (
            "an answer and a refusal",
            format!("data: {ours}\n\ndata: {}\n\n", error(json!(7), -32602)),
            "done",
            DONE,
        ),
        (
            "cut after the answer",
            format!("data: {ours}\n\ndata: {{\"jso"),
            "done",
            DONE,
        ),
        (
            "of another kind",
            format!("event: odd\ndata: {ours}\n\n"),
            "done",
            DONE,
        ),
        ("cut before", ": hi\n\n".to_owned(), "cut", LOST),
        (
            "cut inside",
            format!("data: {}", &ours[..ours.len() / 2]),
            "cut",
            LOST,
        ),
        ("cut before its end", format!("data: {ours}\n"), "cut", LOST),
        ("nothing", String::new(), "cut", LOST),
        (
            "another's alone",
            format!("data: {}\n\n", answer(8, "x")),
            "cut",
            LOST,
        ),
        (
            "a request with our id",
            format!("data: {request}\n\n"),
            "cut",
            LOST,
        ),
        ("in a batch", format!("data: [{ours}]\n\n"), "cut", LOST),
        (
            "without data",
            "event: message\nid: 7\n\n".to_owned(),
            "cut",
            LOST,
        ),
        ("JSON instead", ours.clone(), "cut", LOST),
        ("JSON in lines", format!("{ours}\n\n"), "cut", LOST),
        (
            "a definite error",
            format!("data: {}\n\n", error(json!(7), -32602)),
            "error -32602",
            REFUSED,
        ),
        (
            "an error for nobody",
            format!("data: {}\n\n", error(Value::Null, -32600)),
            "error -32600",
            REFUSED,
        ),
        (
            "an error that may come late",
            format!("data: {}\n\n", error(json!(7), -32603)),
            "error -32603",
            LOST,
        ),
    ];
    for (name, stream, expected, both) in rows {
        let seen = every_way(name, stream.as_bytes()).await;
        let words = match &seen {
            Ok(result) => ToolAnswer::read(result).unwrap().text,
            Err(WireFault::Cut) => "cut".to_owned(),
            Err(WireFault::Rpc { code, .. }) => format!("error {code}"),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(words, expected, "{name}");
        assert_eq!(outcomes(&seen), both, "{name}");
    }
    let mut broken = format!("data: {}\n\n", answer(7, "a?b")).into_bytes();
    let place = broken.iter().position(|byte| *byte == b'?').unwrap();
    for invalid in [b"\xFF".as_slice(), b"\xC3", b"\xF0\x9F", b"\xED\xA0\x80"] {
        broken.splice(place..=place, invalid.iter().copied().chain([b'?']));
        let seen = every_way("invalid letters", &broken).await;
        assert_eq!(outcomes(&seen), DONE, "{seen:?}");
        broken.splice(place..place + invalid.len(), []);
    }
}

#[tokio::test]
async fn the_bound_is_on_bytes_and_not_on_chunks() {
    let end = format!("data: {}\n\n", answer(7, "done"));
    let padded = |more: usize| {
        let mut stream = ": ".to_owned();
        stream.push_str(&"x".repeat(TOOL_BODY_MAX - end.len() - stream.len() - 2 + more));
        stream.push_str("\n\n");
        stream.push_str(&end);
        stream
    };
    let single = |more: usize| {
        let frame = format!("data: {}\n\n", answer(7, "")).len();
        let text = "x".repeat(TOOL_BODY_MAX - frame + more);
        format!("data: {}\n\n", answer(7, &text))
    };
    for size in [7, 1_000, 4_096, usize::MAX] {
        for (fits, too_large) in [(padded(0), padded(1)), (single(0), single(1))] {
            assert_eq!(fits.len(), TOOL_BODY_MAX);
            assert!(in_chunks(fits.as_bytes(), size).await.is_ok(), "{size}");
            let seen = in_chunks(too_large.as_bytes(), size).await;
            assert_eq!(seen, Err(WireFault::TooLarge), "{size}");
        }
        // What comes after the answer does not matter any more.
        let after = format!("{end}{}", "x".repeat(TOOL_BODY_MAX));
        assert!(in_chunks(after.as_bytes(), size).await.is_ok(), "{size}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_the_answer_is_answered_and_one_that_breaks_before_is_cut() {
    let ours = format!("data: {}\n\n", answer(7, "done"));
    let broken = || Err(std::io::Error::other("reset"));
    let piece = |text: &str| Ok(Bytes::copy_from_slice(text.as_bytes()));
    assert!(told(vec![piece(&ours), broken()]).await.is_ok());
    let (head, _) = ours.split_at(ours.len() - 1);
    for before in ["", ": hi\n\n", head] {
        let seen = told(vec![piece(before), broken(), piece(&ours)]).await;
        assert_eq!(seen, Err(WireFault::Cut), "{before:?}");
    }
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(format!("data: {}", answer(7, "done"))),
        1 => Just(format!("data: {}", answer(8, "other"))),
        1 => Just(format!("data: {}", error(json!(7), -32602))),
        1 => Just(format!("data: {}", error(Value::Null, -32603))),
        1 => Just("data: {".to_owned()),
        1 => Just("data: }".to_owned()),
        1 => Just("data:".to_owned()),
        1 => Just("event: message".to_owned()),
        1 => Just("event".to_owned()),
        1 => Just("id: 4".to_owned()),
        1 => Just("retry: soon".to_owned()),
        1 => Just(": ❤".to_owned()),
        4 => Just(String::new()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_stream_means_something_else_in_other_chunks(
        lines in prop::collection::vec((line(), 0..3_usize), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let ends = ["\n", "\r\n", "\r"];
        let text: String = lines.iter().map(|(line, end)| format!("{line}{}", ends[*end])).collect();
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|ends| Ok(Bytes::copy_from_slice(&bytes[ends[0]..ends[1]])));
        let chunks: Vec<_> = chunks.collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (whole, cut, single) = runtime.block_on(async {
            let whole = in_chunks(bytes, bytes.len().max(1)).await;
            (whole, told(chunks).await, in_chunks(bytes, 1).await)
        });
        prop_assert_eq!(&cut, &whole);
        prop_assert_eq!(&single, &whole);
    }
}
