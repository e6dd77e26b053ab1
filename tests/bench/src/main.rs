//! `make bench`: prints what a turn costs beside what it may cost.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;
use toshi_bench::{Measured, Scene};
use toshi_core::{
    ARGUMENTS_MAX, Canonical, Catalogue, ConnectionRow, ConnectionStatus, Era, Gate, Millis, Role,
    Sharing, ToolDefinition, ToolRow, ToolState, UserId, WriteMode,
};

/// Three kinds of message and the warm-up stay below a person's messages a minute.
const ROUNDS: usize = 6;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut scene = Scene::new().await;
    // Warm: secrets, sessions, data keys.
    scene.say("hello").await;
    scene.say("what channels are there").await;

    writeln!(
        out,
        "\nWaits and calls, counted in front of the emulator (warm process)\n"
    )?;
    writeln!(
        out,
        "| what | waits | goal | must | table calls | KMS | SQS | median wall |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    let plain = rounds(&mut scene, "hello").await;
    row(&mut out, "plain turn", &plain, 3)?;
    let read = rounds(&mut scene, "what channels are there").await;
    row(&mut out, "turn with one read", &read, 5)?;
    let (mut pauses, mut decisions, mut works) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        pauses.push(
            scene
                .say(&format!("post \"round {round}\" to #general"))
                .await,
        );
        decisions.push(scene.approve().await);
        works.push(scene.work().await);
    }
    row(&mut out, "write, up to the pause", &pauses, 3)?;
    row(&mut out, "decision", &decisions, 1)?;
    let claims: Vec<usize> = works
        .iter()
        .filter_map(|work| work.counted.claim_to_settle())
        .collect();
    writeln!(
        out,
        "| claim to settle | {} | 2 | 3 | | | | |",
        claims.iter().max().copied().unwrap_or_default()
    )?;
    let waits = best(&works).map_or(0, |work| work.counted.table_waits());
    let wall = median(&works).as_secs_f64() * 1e3;
    writeln!(
        out,
        "\nThe worker's whole run: {waits} waits, median {wall:.1} ms. One after another:"
    )?;
    for group in best(&works).iter().flat_map(|work| &work.counted.groups) {
        writeln!(out, "- {}", group.join(" + "))?;
    }
    scene.stop().await;

    gate(&mut out)
}

async fn rounds(scene: &mut Scene, text: &str) -> Vec<Measured> {
    let mut measured = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        measured.push(scene.say(text).await);
    }
    measured
}

fn best(measured: &[Measured]) -> Option<&Measured> {
    measured.iter().min_by_key(|one| one.counted.table_waits())
}

fn median(measured: &[Measured]) -> Duration {
    let mut walls: Vec<Duration> = measured.iter().map(|one| one.took).collect();
    walls.sort_unstable();
    walls.get(walls.len() / 2).copied().unwrap_or_default()
}

fn row(
    out: &mut impl Write,
    what: &str,
    measured: &[Measured],
    goal: usize,
) -> std::io::Result<()> {
    let Some(best) = best(measured) else {
        return Ok(());
    };
    writeln!(
        out,
        "| {what} | {} | {goal} | {} | {} | {} | {} | {:.1} ms |",
        best.counted.table_waits(),
        goal + 1,
        best.counted.table_calls(),
        best.counted.kms,
        best.counted.sqs,
        median(measured).as_secs_f64() * 1e3,
    )
}

/// The rules of one call with 2 KB of arguments, beside what any JSON call must do anyway.
fn gate(out: &mut impl Write) -> std::io::Result<()> {
    let text = json!({ "channel": "#general", "text": "x".repeat(2_000) }).to_string();
    let catalogue = Catalogue::load(&["demo"], true).unwrap_or_default();
    let definition = ToolDefinition {
        name: "post_message".to_owned(),
        title: None,
        description: None,
        input_schema: serde_json::Map::new(),
        annotations: None,
    };
    let (Ok(connection), Ok(user), Ok(hash)) = (
        "demo-1".parse(),
        "admin".parse::<UserId>(),
        definition.hash(),
    ) else {
        return Ok(());
    };
    let row = ConnectionRow {
        connection,
        connector: "demo".to_owned(),
        status: ConnectionStatus::Active,
        usable: true,
        sharing: Sharing::TenantShared,
        owner: None,
        roles: vec![Role::Admin],
        account: "demo:lakeside".to_owned(),
        account_name: "Lakeside workspace".to_owned(),
        write_mode: WriteMode::All,
        tool_allowlist: None,
        tool_denylist: Vec::new(),
        epoch: 1,
        connected_at: Millis::from_epoch(0),
        era: Some(Era::Handshake),
    };
    let tool = ToolRow {
        connection: row.connection.clone(),
        hash,
        definition,
        state: ToolState::Active,
    };
    let ours = per_call(|| {
        let gate = Gate::new(&catalogue, &row, Role::Admin, &user, false);
        let verdict = gate.judge(black_box("post_message"), Some(&tool));
        let arguments = Canonical::arguments(black_box(&text), ARGUMENTS_MAX);
        drop(black_box((verdict, arguments)));
    });
    let parse = per_call(|| {
        let value: Result<serde_json::Value, _> = serde_json::from_str(black_box(&text));
        drop(black_box(value));
    });
    writeln!(
        out,
        "\nRules of one call, 2 KB of arguments (medians of 101 batches)\n"
    )?;
    writeln!(out, "| what | per call | goal | must |")?;
    writeln!(out, "|---|---|---|---|")?;
    let micro = |time: Duration| time.as_secs_f64() * 1e6;
    writeln!(
        out,
        "| gate + canonical hash | {:.1} µs | 5 µs | 20 µs |",
        micro(ours)
    )?;
    writeln!(
        out,
        "| for comparison: parsing the same JSON | {:.1} µs | | |",
        micro(parse)
    )?;
    writeln!(
        out,
        "| ratio | {:.1} | | |",
        ours.as_secs_f64() / parse.as_secs_f64()
    )
}

fn per_call(mut work: impl FnMut()) -> Duration {
    const BATCH: u32 = 200;
    let mut batches: Vec<Duration> = (0..101)
        .map(|_| {
            let began = Instant::now();
            (0..BATCH).for_each(|_| work());
            began.elapsed() / BATCH
        })
        .collect();
    batches.sort_unstable();
    batches.get(batches.len() / 2).copied().unwrap_or_default()
}
