//! Every kind of server, known rightly, wrongly or not at all, and what may happen to a call.

use super::*;

const SERVERS: [Speaks; 4] = [
    Speaks::Sessions,
    Speaks::NoSessions,
    Speaks::Stateless,
    Speaks::Both,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Right,
    Wrong,
    Absent,
}

/// What the newest era is that a server speaks.
fn newest(speaks: Speaks) -> Era {
    match speaks {
        Speaks::Sessions | Speaks::NoSessions => Era::Handshake,
        Speaks::Stateless | Speaks::Both => Era::Stateless,
    }
}

async fn bench(speaks: Speaks, known: Known) -> Bench {
    let era = match known {
        Known::Right => Some(newest(speaks)),
        Known::Wrong => Some(newest(speaks).other()),
        Known::Absent => None,
    };
    Bench::at(speaks, era).await
}

/// The era in which it then goes on: a server that speaks both serves either.
fn spoken(speaks: Speaks, known: Known) -> Era {
    match (speaks, known) {
        (Speaks::Both, Known::Wrong) => Era::Handshake,
        _ => newest(speaks),
    }
}

fn outcome(seen: Result<Value, Fault>, access: Access) -> &'static str {
    words(&settle(told(seen).result, access))
}

/// One write on which this reply waits: its outcome, how often it was sent, and whether it ran.
async fn write(bench: &Bench, reply: Reply) -> (&'static str, usize, usize) {
    let prepared = bench.prepare().await;
    bench.server.once("tools/call", reply);
    let seen = outcome(bench.send(prepared).await, Access::Write);
    (seen, bench.calls(), bench.server.effects())
}

#[tokio::test]
async fn every_server_is_spoken_with_and_no_write_is_sent_twice() {
    println!(
        "{:11} {:7} | {:9} | list | read | write | 404 of a session: read, write | reply lost | \
         404 -32601 | 400 -32020 | events",
        "server", "known", "spoken"
    );
    for speaks in SERVERS {
        for known in [Known::Right, Known::Wrong, Known::Absent] {
            row(speaks, known).await;
        }
    }
}

async fn row(speaks: Speaks, known: Known) {
    let name = format!("{speaks:?} {known:?}");
    let era = spoken(speaks, known);
    let has_sessions = era == Era::Handshake && speaks != Speaks::NoSessions;

    let here = bench(speaks, known).await;
    let listed = here.tools.list(&here.target()).await.unwrap().len();
    assert_eq!((listed, here.calls()), (2, 0), "{name}: list");
    let learned = here.tools.learned(&here.target());
    assert_eq!(learned.or(here.row.era), Some(era), "{name}: what is kept");

    let here = bench(speaks, known).await;
    let read = outcome(here.read().await, Access::Read);
    assert_eq!(
        (read, here.calls(), here.server.effects()),
        ("succeeded", 1, 1),
        "{name}: read"
    );

    let here = bench(speaks, known).await;
    let written = outcome(here.write().await, Access::Write);
    assert_eq!(
        (written, here.calls(), here.server.effects()),
        ("succeeded", 1, 1),
        "{name}: write"
    );

    // A lost session: a read recovers once, a write does not.
    let (mut lost_read, mut lost_write) = ("-", "-");
    if has_sessions {
        let here = bench(speaks, known).await;
        let _ = here.tools.list(&here.target()).await.unwrap();
        here.server.forget_sessions();
        lost_read = outcome(here.read().await, Access::Read);
        let counts = (here.calls(), here.server.effects());
        assert_eq!(
            (lost_read, counts),
            ("succeeded", (2, 1)),
            "{name}: lost session, read"
        );

        let here = bench(speaks, known).await;
        let prepared = here.prepare().await;
        here.server.forget_sessions();
        lost_write = outcome(here.send(prepared).await, Access::Write);
        let counts = (here.calls(), here.server.effects());
        assert_eq!(
            (lost_write, counts),
            ("unknown", (1, 0)),
            "{name}: lost session, write"
        );
    }

    let here = bench(speaks, known).await;
    let cut = write(&here, Reply::Cut).await;
    assert_eq!(cut, ("unknown", 1, 1), "{name}: reply lost");

    let here = bench(speaks, known).await;
    let no_method = write(&here, rpc_error(404, -32601, "no")).await;
    let expected = if has_sessions { "unknown" } else { "refused" };
    assert_eq!(no_method, (expected, 1, 0), "{name}: 404 with -32601");

    let here = bench(speaks, known).await;
    let headers = write(&here, rpc_error(400, -32020, "no")).await;
    assert_eq!(headers, ("refused", 1, 0), "{name}: header mismatch");

    let here = bench(speaks, known).await;
    here.server.answer_in_events();
    let events = outcome(here.write().await, Access::Write);
    assert_eq!(
        (events, here.calls(), here.server.effects()),
        ("succeeded", 1, 1),
        "{name}: events"
    );

    println!(
        "{:11} {:7} | {:9} | {listed} | {read} | {written} | {lost_read}, {lost_write} | {} | {} | {} | {events}",
        format!("{speaks:?}"),
        format!("{known:?}"),
        format!("{era:?}"),
        cut.0,
        no_method.0,
        headers.0,
    );
}
