//! Random schedules. A seed decides what people say and answer, which hints are lost or doubled, how
//! the tool's server behaves, and where processes die; then everything comes to rest, and what must
//! hold is looked at. It decides no more than that: how two processes that run at once interleave is
//! new in every run.
//!
//! `TOSHI_SEED=7` runs one of them, `TOSHI_SCHEDULES=500` that many.

mod check;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::Rng;
use serde_json::json;
use toshi_core::{ApprovalId, DECIDE_WITHIN_WEB_MS, State};

use toshi_failpoints::Point;
use world::{IN_ANSWER, IN_CALL, IN_DECISION, IN_EXPIRE, IN_START, IN_TAKEOVER, Trace, World};

use crate::process;

/// As many as run on every change.
const USUAL: u64 = 60;
/// Schedules that have found a fault. They stay.
const FAILED_ONCE: &[u64] = &[];
const AT_ONCE: usize = 3;

/// What becomes of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    /// A yes when the time is over.
    Late,
    /// None, and the time goes by.
    Never,
    /// None yet.
    NotYet,
}

/// How the tool's server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Well,
    /// It does the work, and nobody hears of it.
    LosesReply(&'static str, i64),
    /// It does not do the work, and says so.
    Refuses(&'static str, i64),
}

impl Server {
    fn of(world: &World) -> Self {
        match world.random.borrow_mut().random_range(0..10) {
            0 | 1 => Self::LosesReply("mcp.demo.drop_reply_after_commit", 0),
            2 => Self::LosesReply("mcp.demo.status_after_commit", 500),
            3 => Self::LosesReply("mcp.demo.status_after_commit", 404),
            4 => Self::Refuses("mcp.demo.reject_with", 429),
            5 => Self::Refuses("mcp.demo.is_error", 0),
            _ => Self::Well,
        }
    }

    async fn set(self, world: &World) {
        let (Self::LosesReply(name, number) | Self::Refuses(name, number)) = self else {
            return;
        };
        let value = if number == 0 {
            json!(true)
        } else {
            json!(number)
        };
        let switch = json!({ "value": value, "tool": "post_message" });
        world.scene.switch(name, switch).await;
    }
}

async fn live_through(seed: u64, trace: Trace) {
    let world = World::new(seed, trace).await;
    let server = Server::of(&world);
    world.note(format!("the server: {server:?}"));
    server.set(&world).await;

    let read = if world.chance(40) {
        "read #staff and "
    } else {
        ""
    };
    let two = world.chance(50);
    let second = if two { " and \"Two\" to #staff" } else { "" };
    let text = format!("{read}post \"One\" to #general{second}");
    if world.aims_at(IN_TAKEOVER) || world.aims_at(IN_START) {
        world.say_to_the_dying("m-1", &text).await;
    }
    world.say("m-1", &text).await;
    if world.chance(30) {
        world.say_again("m-1", &text).await;
    }
    let follows = if world.is_held().await { 70 } else { 20 };
    if world.aims_at(IN_START) || world.chance(follows) {
        // While somebody is at work, or seems to be.
        world.say("m-2", "what channels are there").await;
    }
    world.come_to_rest().await;

    let mut questions = world.scene.pending().await;
    if world.chance(50) {
        questions.reverse();
    }
    for id in questions {
        if world.chance(25) {
            world.say(&format!("m-{id}"), "read #parents").await;
        }
        answer(&world, id).await;
        if world.chance(50) {
            world.come_to_rest().await;
        }
    }
    world.come_to_rest().await;
    check::rest(&world, matches!(server, Server::LosesReply(..))).await;

    // And the conversation still works.
    world.end_deaths();
    world.say("m-last", "what channels are there").await;
    world.come_to_rest().await;
    let last = world.scene.last_text().await;
    assert!(last.starts_with("These channels exist"), "{last}");
    check::rest(&world, matches!(server, Server::LosesReply(..))).await;
}

async fn answer(world: &World, id: ApprovalId) {
    let of_late = [Point::SweepBeforeCommit, Point::SweepAfterCommit];
    let aims_at_late = world.aims_at(IN_EXPIRE) || world.aims_at(&of_late);
    let drawn = world.random.borrow_mut().random_range(0..12);
    let answer = match drawn {
        _ if aims_at_late => Answer::Never,
        _ if world.aims_at(IN_CALL) => Answer::Yes,
        0..6 => Answer::Yes,
        6 | 7 => Answer::No,
        8 => Answer::Late,
        9 | 10 => Answer::Never,
        _ if world.aims_at(IN_ANSWER) || world.aims_at(IN_DECISION) => Answer::No,
        _ => Answer::NotYet,
    };
    world.note(format!("{id}: {answer:?}"));
    let row = world.scene.approval(id).await;
    if row.state != State::Pending || row.decide_by.is_over(toshi_agent::now()) {
        // Too much time went by with the others.
        return;
    }
    match answer {
        Answer::Yes | Answer::No => {
            let yes = answer == Answer::Yes;
            // Whoever hears nothing answers again.
            for _ in 0..8 {
                let in_chat = world.chance(40) && !world.aims_at(IN_DECISION);
                if in_chat || world.aims_at(IN_ANSWER) {
                    world.answer_in_chat(id, yes).await;
                } else {
                    world.decide(id, yes).await;
                }
                check::effects(world).await;
                if world.scene.approval(id).await.decision.is_some() {
                    break;
                }
            }
            let decided = world.scene.approval(id).await.decision;
            assert_eq!(
                decided.map(|decision| decision.answer == toshi_core::Answer::Approve),
                Some(yes)
            );
            if world.chance(20) {
                let status = world.decide(id, yes).await;
                assert!(
                    matches!(status, Some(200) | None),
                    "the same again: {status:?}"
                );
            }
            if world.chance(20) {
                let status = world.decide(id, !yes).await;
                assert!(
                    matches!(status, Some(409) | None),
                    "the opposite: {status:?}"
                );
            }
        }
        Answer::Late => {
            world.pass(DECIDE_WITHIN_WEB_MS + 1);
            if world.chance(50) {
                world.answer_in_chat(id, true).await;
            } else {
                let status = world.decide(id, true).await;
                assert!(matches!(status, Some(409 | 410) | None), "late: {status:?}");
            }
            assert_eq!(world.scene.approval(id).await.decision, None);
        }
        Answer::Never => {
            world.pass(DECIDE_WITHIN_WEB_MS + 1);
            let drawn = world.random.borrow_mut().random_range(0..3);
            match drawn {
                // A hint that was sent long ago.
                _ if world.aims_at(IN_EXPIRE) => _ = world.worker().await,
                0 => _ = world.worker().await,
                1 => world.sweep_all().await,
                _ => {}
            }
            world.come_to_rest().await;
            assert_eq!(world.scene.state(id).await, State::Expired);
        }
        Answer::NotYet => {}
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the settings of a test run are its configuration"
)]
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// Runs one; the failure with all that led to it.
fn tried(seed: u64) -> Result<(), String> {
    let trace = Trace::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let life = Box::pin(live_through(seed, Trace::clone(&trace)));
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(life))).map_err(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let led = trace.lock().unwrap_or_else(|held| held.into_inner());
        format!(
            "seed {seed} (run it alone with TOSHI_SEED={seed}): {}\n  {}",
            words.unwrap_or_default(),
            led.join("\n  ")
        )
    })
}

fn run(seeds: &[u64]) {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(failure) = tried(*seed) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let (count, of) = (failures.len(), seeds.len());
    assert!(
        failures.is_empty(),
        "{count} of {of}:\n{}",
        failures.join("\n")
    );
}

#[test]
fn wherever_processes_die_each_call_is_made_at_most_once_and_nothing_hangs() {
    if let Some(seed) = setting("TOSHI_SEED") {
        return run(&[seed]);
    }
    let count = setting("TOSHI_SCHEDULES").unwrap_or(USUAL);
    let seeds: Vec<u64> = FAILED_ONCE.iter().copied().chain(0..count).collect();
    run(&seeds);
    println!("{} schedules, {} deaths", seeds.len(), process::deaths());
    let unmet = process::unmet();
    assert!(unmet.is_empty(), "no process died at {}", unmet.join(", "));
}
