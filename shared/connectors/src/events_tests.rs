use proptest::prelude::*;

use super::*;

fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Sse> {
    let mut parser = Parser::default();
    chunks
        .into_iter()
        .flat_map(|chunk| parser.push(chunk))
        .collect()
}

fn one_by_one(bytes: &[u8]) -> Vec<Sse> {
    read(bytes.chunks(1))
}

/// The data of each event, by a reader that has the whole stream before it.
fn data(stream: &[u8]) -> Vec<String> {
    let events = read([stream]);
    assert_eq!(events, one_by_one(stream));
    events
        .into_iter()
        .map(|event| event.data.unwrap())
        .collect()
}

#[test]
fn a_stream_is_read_as_the_standard_says() {
    let rows: [(&str, &[u8], &[&str]); 27] = [
        ("one event", b"data: a\n\n", &["a"]),
        ("without a space", b"data:a\n\n", &["a"]),
        ("one space only is taken off", b"data:  a \n\n", &[" a "]),
        ("two events", b"data: a\n\ndata: b\n\n", &["a", "b"]),
        (
            "lines are joined",
            b"data: a\ndata: b\ndata:\n\n",
            &["a\nb\n"],
        ),
        ("CRLF", b"data: a\r\ndata: b\r\n\r\n", &["a\nb"]),
        ("CR", b"data: a\rdata: b\r\r", &["a\nb"]),
        ("mixed", b"data: a\r\ndata: b\rdata: c\n\r\n", &["a\nb\nc"]),
        ("a byte order mark", b"\xEF\xBB\xBFdata: a\n\n", &["a"]),
        (
            "a second one is part of a name",
            b"\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: b\n\n",
            &["b"],
        ),
        ("half a mark", b"\xEF\xBBdata: a\n\ndata: b\n\n", &["b"]),
        ("comments", b": hi\n:\n:data: x\ndata: a\n: x\n\n", &["a"]),
        (
            "other fields",
            b"id: 1\nevent: message\nretry: 10\ndata: a\n\n",
            &["a"],
        ),
        (
            "fields that are wrong",
            b"retry: soon\nid: \0\nid: 1\nid: 2\nevent: a\nevent: b\ndata: a\n\n",
            &["a"],
        ),
        (
            "a field that nobody knows",
            b"mood: good\ndata: a\n\n",
            &["a"],
        ),
        ("a line without a colon", b"hello\ndata: a\n\n", &["a"]),
        ("data without a colon", b"data\ndata: a\n\n", &["\na"]),
        (
            "names are exact",
            b" data: x\nData: x\ndata : x\ndata: a\n\n",
            &["a"],
        ),
        ("no data, no event", b"id: 1\n\nevent: ping\n\n\n\n", &[]),
        ("empty data", b"data\n\ndata:\n\n", &["", ""]),
        ("colons inside", b"data: a: b\n\n", &["a: b"]),
        (
            "split letters",
            "data: zoë ❤ 𝄞\n\n".as_bytes(),
            &["zoë ❤ 𝄞"],
        ),
        (
            "invalid letters",
            b"data: a\xFFb\xC3\n\n",
            &["a\u{FFFD}b\u{FFFD}"],
        ),
        (
            "other line ends are letters",
            "data: a\u{2028}b\u{85}\n\n".as_bytes(),
            &["a\u{2028}b\u{85}"],
        ),
        ("an unfinished event", b"data: a\n\ndata: b\n", &["a"]),
        ("an unfinished line", b"data: a\n\ndata: b", &["a"]),
        ("nothing", b"", &[]),
    ];
    for (name, stream, expected) in rows {
        assert_eq!(data(stream), expected, "{name}");
    }
}

#[test]
fn a_kind_belongs_to_its_own_event() {
    let events = read([b"event: ping\n\ndata: a\n\nevent: x\ndata: b\n\ndata: c\n\n".as_slice()]);
    let kinds: Vec<_> = events.iter().map(|event| event.event.as_deref()).collect();
    assert_eq!(kinds, [None, Some("x"), None]);
}

/// What streams are made of, and what they are broken with.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"data: ".to_vec()),
        Just(b"data".to_vec()),
        Just(b"event: message".to_vec()),
        Just(b"id: 7".to_vec()),
        Just(b"retry: 5".to_vec()),
        Just(b": comment".to_vec()),
        Just("{\"a\":\"ë❤𝄞\"}".as_bytes().to_vec()),
        Just(b"\xEF\xBB\xBF".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn where_the_chunks_are_cut_changes_nothing(
        pieces in prop::collection::vec(piece(), 0..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let stream = pieces.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|ends| &stream[ends[0]..ends[1]]);
        let whole = read([stream.as_slice()]);
        prop_assert_eq!(&read(chunks), &whole);
        prop_assert_eq!(&one_by_one(&stream), &whole);
    }

    #[test]
    fn what_was_written_is_read(lines in prop::collection::vec("[^\r\n]{0,20}", 1..5), end in 0..3) {
        let end = ["\n", "\r\n", "\r"][usize::try_from(end).unwrap()];
        let mut stream = String::new();
        for line in &lines {
            stream.push_str(&format!("data: {line}{end}"));
        }
        stream.push_str(end);
        prop_assert_eq!(data(stream.as_bytes()), [lines.join("\n")]);
    }
}
