//! `make bench`: prints what a turn costs beside what it may cost.

mod process_tables;
mod rules;

use std::io::Write;
use std::time::Duration;

use toshi_bench::{Measured, Scene};

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

    rules::gate(&mut out)?;
    match toshi_bench::functions() {
        Some(folder) => {
            process_tables::starts(&mut out, &folder)?;
            process_tables::work(&mut out, &folder).await
        }
        None => writeln!(
            out,
            "\nTOSHI_BENCH_FUNCTIONS names no folder: starts and CPU are not measured"
        ),
    }
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
