//! The rules of one call, beside what any JSON call must do anyway.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;
use toshi_core::{
    ARGUMENTS_MAX, Canonical, Catalogue, ConnectionRow, ConnectionStatus, Era, Gate, Millis, Role,
    Sharing, ToolDefinition, ToolRow, ToolState, UserId, WriteMode,
};

/// The rules of one call with 2 KB of arguments, beside what any JSON call must do anyway.
pub(crate) fn gate(out: &mut impl Write) -> std::io::Result<()> {
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
