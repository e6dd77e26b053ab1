//! Processes that die at any moment: their work is done by the next, and nothing is done twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use toshi_agent::{Agent, ChatRequest, Posted, RunEnd};
use toshi_core::{Answer, ApprovalId, Cause, Event, State, TurnState};
use toshi_test_support::now;

use crate::scene::{Scene, budget, message, work};

/// A process with a runtime of its own, which ends between two instructions as a killed one does.
fn killed_after<F>(ms: u64, work: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        _ = runtime.block_on(async { tokio::time::timeout(Duration::from_millis(ms), work).await });
        // Tasks that the work left behind die with the runtime.
        runtime.shutdown_background();
    });
    thread.join().unwrap();
}

async fn chat_once(agent: Arc<Agent>, request: ChatRequest) {
    if let Ok(mut stream) = agent.chat(request).await {
        while stream.recv().await.is_some() {}
    }
}

impl Scene {
    fn request(&self, text: &str) -> ChatRequest {
        ChatRequest {
            tenant: self.tenant.clone(),
            user: self.admin.clone(),
            posted: Posted::parse(&message("m-1", text)).unwrap(),
            request: None,
            budget: budget(),
        }
    }

    /// A chat invocation that is killed.
    async fn killed_chat(&self, ms: u64, text: &str) {
        let (agent, request) = (self.another_agent(), self.request(text));
        let killed = move || killed_after(ms, chat_once(agent, request));
        tokio::task::spawn_blocking(killed).await.unwrap();
        self.lose_lease().await;
    }

    /// A worker that is killed.
    async fn killed_worker(&self, ms: u64) {
        let (agent, tenant, chat) = (
            self.another_agent(),
            self.tenant.clone(),
            self.conversation(),
        );
        let killed = move || {
            killed_after(ms, async move {
                _ = work(&agent, &tenant, &chat).await;
            });
        };
        tokio::task::spawn_blocking(killed).await.unwrap();
        self.lose_lease().await;
    }

    /// What sweeps and workers do until nothing moves.
    async fn settle_everything(&self) {
        for _ in 0..20 {
            let end = self.work().await;
            assert!(matches!(end, RunEnd::Idle | RunEnd::Busy), "{end:?}");
            let school = self.school();
            let rows = school.recent_approvals(None, 100).await.unwrap().items;
            let executing: Vec<_> = rows
                .into_iter()
                .filter(|row| row.state == State::Executing)
                .collect();
            if executing.is_empty() {
                return;
            }
            for row in executing {
                // As the sweep finds it once the claim's lease has run out.
                let later = now().plus(120_000);
                school
                    .transition(&row, Event::Abandon, &Cause::system(), later)
                    .await
                    .unwrap();
            }
        }
        panic!("it never comes to rest");
    }

    async fn decide_all(&self, approve: impl Fn(usize) -> bool) -> Vec<ApprovalId> {
        let ids = self.pending().await;
        for (n, id) in ids.iter().enumerate() {
            let answer = if approve(n) {
                Answer::Approve
            } else {
                Answer::Reject
            };
            self.decide(*id, answer, None).await.unwrap();
        }
        ids
    }
}

/// One conversation whose processes are killed at moments that the seed chooses.
async fn live_through(seed: u64) -> (State, State) {
    let mut random = StdRng::seed_from_u64(seed);
    let scene = Scene::new().await;
    let text = "post \"One\" to #general and \"Two\" to #staff";
    for _ in 0..random.random_range(0..3) {
        scene.killed_chat(random.random_range(0..140), text).await;
    }
    for _ in 0..random.random_range(0..2) {
        scene.killed_worker(random.random_range(0..80)).await;
    }
    // The client sends its message again, as clients do, while the queue has its hint.
    let answered = std::sync::atomic::AtomicBool::new(false);
    let again = async {
        scene.post(message("m-1", text)).await.unwrap();
        answered.store(true, Ordering::Relaxed);
    };
    let worker = async {
        while !answered.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(30)).await;
            scene.work().await;
        }
    };
    tokio::join!(again, worker);
    scene.settle_everything().await;
    let ids = scene.decide_all(|_| true).await;
    assert_eq!(ids.len(), 2, "seed {seed}: asked once each");
    for _ in 0..random.random_range(1..3) {
        scene.killed_worker(random.random_range(0..120)).await;
    }
    scene.settle_everything().await;

    let posts = scene.posts().await;
    let mut states = Vec::new();
    for (id, text) in ids.iter().zip(["One", "Two"]) {
        let made = posts.iter().filter(|post| post["text"] == text).count();
        let row = scene.approval(*id).await;
        match row.state {
            State::Succeeded => assert_eq!(made, 1, "seed {seed}: {text}"),
            State::Unknown => assert!(made <= 1, "seed {seed}: {text}"),
            state => panic!("seed {seed}: {text} is {state:?}"),
        }
        states.push(row.state);
    }
    let turns = scene.turns().await;
    assert_eq!(turns.len(), 1, "seed {seed}");
    assert!(
        matches!(turns[0].state, TurnState::Done { .. }),
        "seed {seed}: {:?}",
        turns[0]
    );
    let answer = scene.last_answer().await;
    assert!(
        answer["parts"].as_array().unwrap().len() >= 5,
        "seed {seed}: {answer:#?}"
    );
    assert_eq!(scene.messages().await.len(), 2, "seed {seed}");
    scene.assert_at_rest().await;
    (states[0], states[1])
}

/// Seeds in a few threads: each scene is a world of its own.
fn live_through_all(seeds: std::ops::Range<u64>) {
    let seeds = std::sync::Mutex::new(seeds);
    let unknown = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                loop {
                    let Some(seed) = seeds.lock().unwrap().next() else {
                        return;
                    };
                    let (one, two) = runtime.block_on(Box::pin(live_through(seed)));
                    let count = [one, two]
                        .iter()
                        .filter(|state| **state == State::Unknown)
                        .count();
                    unknown.fetch_add(count, Ordering::Relaxed);
                }
            });
        }
    });
    let unknown = unknown.into_inner();
    assert!(
        (1..40).contains(&unknown),
        "the kills miss the calls: {unknown} outcomes unknown"
    );
}

#[test]
fn a_turn_whose_processes_are_killed_at_any_moment_ends_with_each_call_made_at_most_once() {
    live_through_all(0..40);
}

#[tokio::test]
async fn a_turn_that_was_killed_too_often_is_ended_with_a_sentence() {
    let scene = Scene::new().await;
    scene
        .switch("llm.first_byte_delay_ms", serde_json::json!(5_000))
        .await;
    scene.killed_chat(250, "hello").await;
    for _ in 0..3 {
        scene.killed_worker(150).await;
    }
    assert_eq!(scene.turns().await[0].takeovers, 3);
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert!(
        scene
            .last_text()
            .await
            .starts_with("This request was interrupted")
    );
    // Whoever looks again is told the same.
    let again = crate::strict::Screen::of(&scene.post(message("m-1", "hello")).await.unwrap());
    assert!(again.text().starts_with("This request was interrupted"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn interruptions_before_a_pause_are_not_counted_against_what_follows_it() {
    let scene = Scene::new().await;
    scene
        .switch("llm.first_byte_delay_ms", serde_json::json!(5_000))
        .await;
    scene.killed_chat(250, "post \"Hi\" to #general").await;
    for _ in 0..2 {
        scene.killed_worker(150).await;
    }
    scene
        .switch("llm.first_byte_delay_ms", serde_json::Value::Null)
        .await;
    assert_eq!(scene.work().await, RunEnd::Idle);
    let id = scene.one_pending().await;
    assert_eq!(scene.turns().await[0].takeovers, 3);
    scene.approve(id).await;
    scene
        .switch("llm.first_byte_delay_ms", serde_json::json!(5_000))
        .await;
    scene.killed_worker(400).await;
    assert_eq!(scene.state(id).await, State::Succeeded);
    scene
        .switch("llm.first_byte_delay_ms", serde_json::Value::Null)
        .await;
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert!(
        scene.last_text().await.starts_with("Posted"),
        "{}",
        scene.last_text().await
    );
    scene.assert_at_rest().await;
}
