//! A turn whose processes die, each where the test says; [`crate::schedules`] has the rest.

use std::time::Duration;

use toshi_agent::{ChatRequest, Posted, RunEnd};
use toshi_core::State;
use toshi_failpoints::Point;

use crate::process::{self, Death, Ending};
use crate::scene::{Scene, budget, message, work};
use crate::strict::Screen;

const LIMIT: Duration = Duration::from_secs(20);

impl Scene {
    async fn dies<F>(&self, at: Point, work: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let death = Some(Death { at, visit: 1 });
        assert_eq!(process::run(0, death, LIMIT, work).await, Ending::At(at));
        self.lose_lease().await;
    }

    async fn chat_dies(&self, at: Point, text: &str) {
        let agent = self.another_agent();
        let request = ChatRequest {
            tenant: self.tenant.clone(),
            user: self.admin.clone(),
            posted: Posted::parse(&message("m-1", text)).unwrap(),
            request: None,
            budget: budget(),
        };
        let chat = async move || {
            let mut stream = agent.chat(request).await.unwrap();
            while stream.recv().await.is_some() {}
        };
        self.dies(at, chat).await;
    }

    async fn worker_dies(&self, at: Point) {
        let agent = self.another_agent();
        let (tenant, chat) = (self.tenant.clone(), self.conversation());
        let work = async move || {
            work(&agent, &tenant, &chat).await.unwrap();
        };
        self.dies(at, work).await;
    }
}

#[tokio::test]
async fn a_turn_that_was_killed_too_often_is_ended_with_a_sentence() {
    let scene = Scene::new().await;
    scene.chat_dies(Point::TurnBeforeModel, "hello").await;
    for _ in 0..3 {
        scene.worker_dies(Point::TurnBeforeModel).await;
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
    let again = Screen::of(&scene.post(message("m-1", "hello")).await.unwrap());
    assert!(again.text().starts_with("This request was interrupted"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn interruptions_before_a_pause_are_not_counted_against_what_follows_it() {
    let scene = Scene::new().await;
    let text = "post \"Hi\" to #general";
    scene.chat_dies(Point::TurnBeforeModel, text).await;
    for _ in 0..2 {
        scene.worker_dies(Point::TurnBeforeModel).await;
    }
    assert_eq!(scene.work().await, RunEnd::Idle);
    let id = scene.one_pending().await;
    assert_eq!(scene.turns().await[0].takeovers, 3);
    scene.approve(id).await;
    scene.worker_dies(Point::TurnBeforeModel).await;
    assert_eq!(scene.state(id).await, State::Succeeded);
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert!(
        scene.last_text().await.starts_with("Posted"),
        "{}",
        scene.last_text().await
    );
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_call_whose_process_dies_after_its_claim_is_unknown_and_is_not_made_again() {
    for (at, made) in [
        (Point::ClaimAfterCommit, 0),
        (Point::SendAfterBytes, 1),
        (Point::SendAfterReply, 1),
        (Point::SettleBeforeCommit, 1),
    ] {
        let scene = Scene::new().await;
        scene.say("post \"Hi\" to #general").await;
        let id = scene.one_pending().await;
        scene.approve(id).await;
        scene.worker_dies(at).await;
        assert_eq!(scene.state(id).await, State::Executing, "{at:?}");
        assert_eq!(
            scene.work().await,
            RunEnd::Idle,
            "{at:?}: nothing to do but to wait"
        );
        let row = scene.approval(id).await;
        scene.sweep(id, row.lease().time().unwrap()).await;
        assert_eq!(scene.state(id).await, State::Unknown, "{at:?}");
        assert_eq!(scene.work().await, RunEnd::Idle);
        assert_eq!(scene.posts().await.len(), made, "{at:?}");
        let told = scene.last_text().await;
        assert!(told.contains("I do not know whether"), "{at:?}: {told}");
        scene.assert_at_rest().await;
    }
}
