use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const TOKENS: u32 = 4_096;

/// An answer read from the bytes of a stream in these pieces, and the words that were told.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Result<ModelStep, ModelError>, String) {
    let mut collector = Collector::default();
    let mut told = String::new();
    for piece in pieces {
        if let Err(error) = collector.feed(piece, |text| told.push_str(text)) {
            return (Err(error), told);
        }
        if collector.is_done() {
            break;
        }
    }
    (collector.finish(TOKENS), told)
}

fn stream(events: &[&str]) -> String {
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    events.collect()
}

fn collect(events: &[&str]) -> Result<ModelStep, ModelError> {
    read([stream(events).as_bytes()]).0
}

fn delta(delta: Value) -> String {
    json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string()
}

fn calls(deltas: &[Value]) -> Result<Vec<ModelCall>, ModelError> {
    let mut events: Vec<String> = deltas
        .iter()
        .map(|call| delta(json!({ "tool_calls": [call] })))
        .collect();
    events.push(DONE.to_owned());
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    collect(&events).map(|step| step.calls)
}

fn made(id: &str, name: &str, arguments: &str) -> ModelCall {
    ModelCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

/// A piece of a call; absent parts are left out.
fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut piece = json!({ "type": "function", "function": { "arguments": arguments } });
    if let Some(index) = index {
        piece["index"] = json!(index);
    }
    if let Some(id) = id {
        piece["id"] = json!(id);
    }
    if let Some(name) = name {
        piece["function"]["name"] = json!(name);
    }
    piece
}

const DONE: &str = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
const CALL: &str = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"p","arguments":"{}"}}]}}]}"#;
const TEXT: &str = r#"{"choices":[{"delta":{"content":"all"}}]}"#;

fn end(word: &str) -> String {
    json!({ "choices": [{ "delta": {}, "finish_reason": word }] }).to_string()
}

#[test]
fn text_and_calls_are_put_together_from_pieces() {
    let step = collect(&[
        r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"delta":{"content":"I will "}}]}"#,
        r#"{"choices":[{"delta":{"content":"post."}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"p","arguments":"{\"x\""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"q","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
        DONE,
        r#"{"choices":[],"usage":{"total_tokens":3}}"#,
    ])
    .unwrap();
    assert_eq!(step.text, "I will post.");
    assert_eq!(step.finish, Finish::ToolCalls);
    assert_eq!(
        step.calls,
        [made("a", "p", "{\"x\":1}"), made("b", "q", "{}")]
    );
}

#[test]
fn an_answer_without_a_finish_is_broken_off() {
    let half = r#"{"choices":[{"delta":{"content":"half"}}]}"#;
    let empty: &[&[&str]] = &[
        &[],
        &["[DONE]"],
        &[half],
        &[half, "[DONE]"],
        &[CALL],
        &[
            r#"{"choices":[]}"#,
            r#"{"choices":null,"usage":{"completion_tokens":3}}"#,
            "[DONE]",
        ],
        &[r#"{"choices":[{"delta":{"content":null},"finish_reason":""}]}"#],
        &[r#"{"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":"stop"}]}"#],
    ];
    for events in empty {
        assert_eq!(collect(events), Err(ModelError::BrokenOff), "{events:?}");
    }
}

#[test]
fn a_repeated_call_id_refuses_the_batch() {
    for index in [Some(1), None] {
        let twice = [
            piece(Some(0), Some("a"), Some("p"), "{}"),
            piece(index, Some("a"), Some("q"), "{}"),
        ];
        assert_eq!(calls(&twice), Err(ModelError::Unreadable));
    }
    let empty = [
        piece(Some(0), Some(""), Some("p"), "{}"),
        piece(Some(1), Some(""), Some("q"), "{}"),
        piece(Some(2), Some("a"), Some("r"), "{}"),
    ];
    assert_eq!(calls(&empty).unwrap().len(), 3, "no id is no repeated id");
}

#[test]
fn two_calls_under_one_index_stay_two() {
    let other_ids = [
        piece(Some(0), Some("a"), Some("p"), "{\"x\":"),
        piece(Some(0), Some("b"), Some("p"), "{\"y\":"),
        piece(Some(0), None, None, "2}"),
    ];
    assert_eq!(
        calls(&other_ids),
        Ok(vec![made("a", "p", "{\"x\":"), made("b", "p", "{\"y\":2}")])
    );
    let other_names = [
        piece(Some(0), Some(""), Some("p"), "{}"),
        piece(Some(0), Some(""), Some("q"), "{}"),
    ];
    assert_eq!(
        calls(&other_names),
        Ok(vec![made("", "p", "{}"), made("", "q", "{}")])
    );
    let same_names = [
        piece(Some(0), None, Some("p"), "{\"x\":1}"),
        piece(Some(0), None, Some("p"), "{\"x\":2}"),
    ];
    assert_eq!(
        calls(&same_names),
        Ok(vec![made("", "p", "{\"x\":1}"), made("", "p", "{\"x\":2}")])
    );
}

#[test]
fn a_call_whose_pieces_all_name_it_is_one() {
    let again = [
        piece(Some(0), Some("a"), Some("p"), "{\"x\""),
        piece(Some(0), Some("a"), Some("p"), ":1"),
        piece(Some(0), Some("a"), Some("p"), "}"),
        piece(Some(0), Some("a"), Some("p"), ""),
    ];
    assert_eq!(calls(&again), Ok(vec![made("a", "p", "{\"x\":1}")]));
    // A new id for each piece of one call, as some servers make them up.
    let fresh_ids = [
        piece(Some(0), Some("a"), Some("p"), "{\"x\""),
        piece(Some(0), Some("b"), None, ":1}"),
    ];
    assert_eq!(calls(&fresh_ids), Ok(vec![made("a", "p", "{\"x\":1}")]));
}

#[test]
fn calls_without_an_index_begin_with_their_id_or_name() {
    let ids = [
        piece(None, Some("a"), Some("p"), "{\"x\""),
        piece(None, None, None, ":1}"),
        piece(None, Some("b"), Some("p"), "{}"),
    ];
    assert_eq!(
        calls(&ids),
        Ok(vec![made("a", "p", "{\"x\":1}"), made("b", "p", "{}")])
    );
    let names = [
        piece(None, None, Some("p"), "{}"),
        piece(None, None, Some("q"), "{}"),
    ];
    assert_eq!(
        calls(&names),
        Ok(vec![made("", "p", "{}"), made("", "q", "{}")])
    );
}

#[test]
fn pieces_out_of_order_are_put_in_the_order_of_their_calls() {
    let mixed = [
        piece(Some(7), Some("c"), Some("r"), "{\"z\""),
        piece(Some(1), Some("b"), Some("q"), "{}"),
        piece(Some(0), Some("a"), Some("p"), "{\"x\""),
        piece(Some(7), None, None, ":3}"),
        piece(Some(0), None, None, ":1}"),
    ];
    assert_eq!(
        calls(&mixed),
        Ok(vec![
            made("a", "p", "{\"x\":1}"),
            made("b", "q", "{}"),
            made("c", "r", "{\"z\":3}")
        ])
    );
    // The name may come after the arguments.
    let late = [
        piece(Some(0), Some("a"), None, "{}"),
        piece(Some(0), None, Some("p"), ""),
    ];
    assert_eq!(calls(&late), Ok(vec![made("a", "p", "{}")]));
}

#[test]
fn a_call_without_a_name_is_no_answer() {
    let rows = [
        vec![piece(Some(0), Some("a"), None, "{}")],
        vec![piece(Some(0), Some("a"), Some(""), "{}")],
        vec![
            piece(Some(0), Some("a"), Some("p"), "{}"),
            piece(Some(1), Some("b"), None, "{}"),
        ],
        vec![json!({ "index": 0, "id": "a" })],
    ];
    for row in rows {
        assert_eq!(calls(&row), Err(ModelError::Unreadable), "{row:?}");
    }
}

#[test]
fn of_thousands_of_calls_the_first_are_kept_and_none_is_changed_by_the_rest() {
    for indexed in [true, false] {
        let many: Vec<Value> = (0..5_000_u64)
            .flat_map(|n| {
                let index = indexed.then_some(n);
                let id = format!("c{n}");
                [
                    piece(index, Some(&id), Some("p"), &format!("{{\"n\":{n}")),
                    piece(index, None, None, "}"),
                ]
            })
            .collect();
        let kept = calls(&many).unwrap();
        let expected: Vec<ModelCall> = (0..CALLS_KEPT)
            .map(|n| made(&format!("c{n}"), "p", &format!("{{\"n\":{n}}}")))
            .collect();
        assert_eq!(kept, expected, "with an index: {indexed}");
    }
    let far = piece(Some(u64::MAX), Some("a"), Some("p"), "{}");
    assert_eq!(calls(&[far]), Ok(vec![made("a", "p", "{}")]));
}

#[test]
fn huge_arguments_are_kept_as_far_as_shows_that_they_are_too_long() {
    let big = format!("{{\"x\":\"{}", "ä".repeat(40_000));
    let more = [
        piece(Some(0), Some("a"), Some("p"), &big),
        piece(Some(0), None, None, &"y".repeat(70_000)),
        piece(Some(0), None, None, "\"}"),
        piece(Some(1), Some("b"), Some("q"), "{}"),
    ];
    let kept = calls(&more).unwrap();
    assert!((ARGUMENTS_MAX + 1..=ARGUMENTS_KEPT).contains(&kept[0].arguments.len()));
    assert_eq!(kept[1], made("b", "q", "{}"));
}

#[test]
fn a_cut_off_answer_says_so_whatever_comes_after() {
    let cut = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"p","arguments":"{\"x"}}]}}]}"#;
    for after in ["stop", "tool_calls", "made_up"] {
        let step = collect(&[cut, &end("length"), &end(after)]).unwrap();
        assert_eq!(step.finish, Finish::Length);
        let step = collect(&[cut, &end("content_filter"), &end(after)]).unwrap();
        assert_eq!(step.finish, Finish::ContentFilter);
    }
}

#[test]
fn calls_under_an_unknown_finish_are_taken_for_cut_off_and_text_for_whole() {
    for word in ["max_tokens", "model_length", "end_turn", "error"] {
        assert_eq!(
            collect(&[CALL, &end(word)]).unwrap().finish,
            Finish::Length,
            "{word}"
        );
        assert_eq!(
            collect(&[TEXT, &end(word)]).unwrap().finish,
            Finish::Stop,
            "{word}"
        );
    }
    for word in ["stop", "tool_calls", "function_call"] {
        assert_eq!(
            collect(&[CALL, &end(word)]).unwrap().finish,
            Finish::ToolCalls,
            "{word}"
        );
        assert_eq!(
            collect(&[TEXT, &end(word)]).unwrap().finish,
            Finish::Stop,
            "{word}"
        );
    }
}

#[test]
fn calls_of_an_answer_that_used_up_its_tokens_are_cut_off_whatever_the_server_says() {
    let usage = |tokens: u32| json!({ "choices": [], "usage": { "completion_tokens": tokens } });
    let finish = |tokens, word: &str| {
        collect(&[CALL, &end(word), &usage(tokens).to_string(), "[DONE]"])
            .unwrap()
            .finish
    };
    for word in ["tool_calls", "stop"] {
        assert_eq!(finish(TOKENS, word), Finish::Length);
        assert_eq!(finish(TOKENS - 1, word), Finish::ToolCalls);
    }
    let text = collect(&[TEXT, &end("stop"), &usage(TOKENS).to_string()]).unwrap();
    assert_eq!(text.finish, Finish::Stop, "a text that ended by itself");
}

#[test]
fn a_text_without_end_is_no_answer() {
    let word = delta(json!({ "content": "x".repeat(1_000) }));
    let endless = stream(&[word.as_str(); 60]);
    let (result, told) = read([endless.as_bytes()]);
    assert_eq!(result, Err(ModelError::Unreadable));
    assert_eq!(told.len(), 49_000);
}

#[test]
fn a_long_answer_in_many_small_events_is_whole() {
    // Each token in an envelope of a kilobyte: far more bytes than words.
    let envelope = "e".repeat(1_000);
    let word = json!({
        "id": envelope, "choices": [{ "index": 0, "delta": { "content": "word " } }],
    });
    let mut bytes = stream(&[word.to_string().as_str(); 4_000]);
    bytes.push_str(&stream(&[end("stop").as_str(), "[DONE]"]));
    assert!(bytes.len() > 4_000_000);
    assert_eq!(
        read([bytes.as_bytes()]).0.unwrap().text,
        "word ".repeat(4_000)
    );
}

#[test]
fn the_bound_on_a_stream_counts_all_bytes_and_ends_with_its_end() {
    let whole = stream(&[TEXT, &end("stop"), "[DONE]"]);
    let filler = |bytes: usize| format!(":{}\n", "x".repeat(bytes - 2));
    let before = |bytes: usize| filler(bytes - whole.len()) + &whole;
    assert!(read([before(STREAM_MAX).as_bytes()]).0.is_ok());
    assert_eq!(
        read([before(STREAM_MAX + 1).as_bytes()]).0,
        Err(ModelError::Unreadable)
    );
    // What comes after the server's last word is not read.
    let after = whole.clone() + &filler(STREAM_MAX);
    assert!(read([after.as_bytes()]).0.is_ok());
    let line = "x".repeat(STREAM_MAX + 1);
    assert_eq!(
        read([line.as_bytes()]).0,
        Err(ModelError::Unreadable),
        "a line without end"
    );
}

#[test]
fn an_error_in_the_stream_is_no_answer() {
    let result = collect(&[TEXT, r#"{"error":{"message":"overloaded"}}"#, &end("stop")]);
    assert_eq!(result, Err(ModelError::BrokenOff));
}

#[test]
fn what_is_no_event_of_the_api_is_no_answer() {
    let bad: [&[u8]; 6] = [
        b"data: {\n\n",
        b"data: hello\n\n",
        b"data: {\"choices\":[{\"delta\":{\"content\":\"\xFF\"}}]}\n\n",
        b"data: {\"choices\":[{\"delta\":{\"content\":\"\\ud800\"}}]}\n\n",
        b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"delta\":{}}]}\n\n",
        b"data: {\"choices\":{}}\n\n",
    ];
    let end = stream(&[&end("stop")]);
    for bytes in bad {
        let read = read([bytes, end.as_bytes()]).0;
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(read, Err(ModelError::Unreadable), "{text}");
    }
}

#[test]
fn roles_nulls_and_empty_events_change_nothing() {
    let step = collect(&[
        "",
        "   ",
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}],"error":null,"usage":null}"#,
        r#"{"choices":[{"delta":{"role":"tool","content":"a"}}]}"#,
        r#"{"choices":[{"delta":null}]}"#,
        r#"{"choices":[{"delta":{"role":"user","content":"b","tool_calls":null}}]}"#,
        &end("stop"),
        "[DONE]",
        "[DONE]",
        "no longer read",
    ])
    .unwrap();
    assert_eq!(step.text, "ab");
}

/// Bytes of a stream: usual and odd lines, well ended and not.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let text = "[a-z äß🙂\\\\\"]{0,12}".prop_map(|text| delta(json!({ "content": text })));
    let call = (
        "[ab]?",
        "[pq]?",
        "[{}\":1x]{0,6}",
        prop::option::of(0..3_u64),
    )
        .prop_map(|(id, name, arguments, index)| {
            let call = piece(index, Some(&id), Some(&name), &arguments);
            delta(json!({ "tool_calls": [call] }))
        });
    let data = prop_oneof![
        4 => text,
        3 => call,
        2 => "stop|length|tool_calls".prop_map(|word| end(&word)),
        1 => "\\[DONE\\]|\\{|\\{\\}|x",
        1 => Just(r#"{"error":{}}"#.to_owned()),
    ];
    let line_end = || "\n|\r\n|\r";
    let event = (data, line_end(), line_end(), prop::bool::weighted(0.1)).prop_map(
        |(data, one, two, split)| {
            // A JSON text may be spread over several `data` lines wherever whitespace may stand.
            let data = if split {
                data.replacen(":{", &format!(":{one}data:{{"), 1)
            } else {
                data
            };
            format!("data: {data}{one}{two}").into_bytes()
        },
    );
    let other = prop_oneof![
        (": ?[a-z]{0,9}|event: x|id: 1|retry: x|data|odd", line_end())
            .prop_map(|(line, end)| (line + &end).into_bytes()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    let parts = prop::collection::vec(prop_oneof![6 => event, 1 => other], 0..8);
    (prop::bool::weighted(0.2), parts, 0..6_usize).prop_map(|(mark, parts, lost)| {
        let start: &[u8] = if mark { b"\xEF\xBB\xBF" } else { b"" };
        let mut bytes = [start, &parts.concat()].concat();
        bytes.truncate(bytes.len().saturating_sub(lost));
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn how_the_bytes_are_cut_makes_no_difference(
        bytes in streams(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let whole = read([bytes.as_slice()]);
        prop_assert_eq!(&read(bytes.chunks(1)), &whole, "byte by byte");
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        prop_assert_eq!(&read(pieces), &whole, "at {:?}", places);
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_whole_answer_or_none(cut in any::<prop::sample::Index>()) {
        let events = [
            TEXT.to_owned(),
            delta(json!({ "tool_calls": [piece(Some(0), Some("a"), Some("p"), "{\"to\":\"ä\"")] })),
            delta(json!({ "tool_calls": [piece(Some(0), None, None, ",\"all\":true}")] })),
            end("tool_calls"),
            "[DONE]".to_owned(),
        ];
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let bytes = stream(&events);
        let whole = read([bytes.as_bytes()]).0;
        let cut = cut.index(bytes.len());
        let half = read([&bytes.as_bytes()[..cut]]).0;
        if half.is_ok() {
            prop_assert_eq!(half, whole);
        } else {
            prop_assert_eq!(half, Err(ModelError::BrokenOff));
        }
    }
}
