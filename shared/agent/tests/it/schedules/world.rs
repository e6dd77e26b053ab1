//! One school whose processes die: what people, workers and sweeps do there.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use toshi_agent::{ChatRequest, Posted, now};
use toshi_approvals::http::{App, routes};
use toshi_core::{ApprovalId, MessageAuthor, Role, State, Work, next_work};
use toshi_failpoints::{Point, set_ahead_ms};
use toshi_http::{Identity, service, start};
use toshi_refresh::{Ask, Sweeper};
use toshi_test_support::{AUDIENCE, Issuer};
use tower::ServiceExt;

use crate::process::{self, Death, Ending};
use crate::scene::{Scene, Wanted, budget, continued, message, work};
use crate::strict::Screen;

/// What happened, for whoever must understand a failure.
pub(super) type Trace = Arc<Mutex<Vec<String>>>;

/// A process that takes longer is killed, as the platform does.
const LIMIT: Duration = Duration::from_secs(20);
/// For a client that could only look on.
const PATIENCE: Duration = Duration::from_millis(20);
/// A lease and a bit.
pub(super) const LEASE_OVER_MS: i64 = 61_000;

/// Where a chat request can die.
const IN_CHAT: &[Point] = &[
    Point::BeginBeforeCommit,
    Point::BeginAfterCommit,
    Point::TurnAfterTake,
    Point::TurnBeforeModel,
    Point::TurnAfterModel,
    Point::StepBeforeCommit,
    Point::StepAfterCommit,
    Point::AskBeforeCommit,
    Point::AskAfterCommit,
];
/// Where a run can die whatever there is to do, and where by its first work.
const IN_ANY_WORK: &[Point] = &[
    Point::TurnAfterTake,
    Point::ReleaseBefore,
    Point::ReleaseAfter,
];
pub(super) const IN_CALL: &[Point] = &[
    Point::PrepareBefore,
    Point::PrepareAfter,
    Point::ClaimBeforeCommit,
    Point::ClaimAfterCommit,
    Point::SendAfterBytes,
    Point::SendAfterReply,
    Point::SettleBeforeCommit,
    Point::SettleAfterCommit,
];
const IN_TURN: &[Point] = &[
    Point::TurnBeforeModel,
    Point::TurnAfterModel,
    Point::StepBeforeCommit,
    Point::StepAfterCommit,
    Point::AskBeforeCommit,
    Point::AskAfterCommit,
];
const IN_CONTINUE: &[Point] = &[Point::ContinueBeforeCommit, Point::ContinueAfterCommit];
pub(super) const IN_TAKEOVER: &[Point] = &[Point::TakeoverBeforeCommit, Point::TakeoverAfterCommit];
pub(super) const IN_START: &[Point] = &[Point::StartBeforeCommit, Point::StartAfterCommit];
pub(super) const IN_EXPIRE: &[Point] = &[Point::ExpireBeforeCommit, Point::ExpireAfterCommit];
pub(super) const IN_ANSWER: &[Point] = &[Point::AnswerBeforeCommit, Point::AnswerAfterCommit];
pub(super) const IN_DECISION: &[Point] = &[Point::DecideBeforeCommit, Point::DecideAfterCommit];
const IN_SWEEP: &[Point] = &[
    Point::SweepBeforeHint,
    Point::SweepBeforeCommit,
    Point::SweepAfterCommit,
];

pub(super) struct World {
    pub(super) scene: Scene,
    pub(super) random: RefCell<StdRng>,
    issuer: Issuer,
    ahead_ms: Cell<i64>,
    /// Processes that may still die.
    deaths_left: Cell<u32>,
    /// Where one still must. Each seed has its own, so that few seeds meet all points.
    aim: Cell<Option<Point>>,
    trace: Trace,
}

impl World {
    pub(super) async fn new(seed: u64, trace: Trace) -> Self {
        set_ahead_ms(0);
        let scene = Scene::with(Wanted {
            dynoxide: true,
            ..Wanted::default()
        })
        .await;
        let issuer = Issuer::start().await;
        scene.stage.school("lakeside", &issuer.url, AUDIENCE).await;
        scene
            .stage
            .person(&scene.tenant, &issuer.url, "lakeside-admin", Role::Admin)
            .await;
        let mut random = StdRng::seed_from_u64(seed);
        let deaths = random.random_range(1..=6);
        let aim = Point::ALL[seed as usize % Point::ALL.len()];
        Self {
            scene,
            random: RefCell::new(random),
            issuer,
            ahead_ms: Cell::new(0),
            deaths_left: Cell::new(deaths),
            aim: Cell::new(Some(aim)),
            trace,
        }
    }

    pub(super) fn chance(&self, of_100: u32) -> bool {
        self.random.borrow_mut().random_ratio(of_100, 100)
    }

    pub(super) fn note(&self, what: String) {
        self.trace.lock().unwrap().push(what);
    }

    /// Time passes for everyone.
    pub(super) fn pass(&self, ms: i64) {
        self.ahead_ms.set(self.ahead_ms.get() + ms);
        set_ahead_ms(self.ahead_ms.get());
        self.note(format!("{} s pass", ms / 1000));
    }

    /// From now on nothing dies.
    pub(super) fn end_deaths(&self) {
        self.aim.set(None);
        self.deaths_left.set(0);
    }

    /// Whether this schedule must end a process at one of these, and has not yet.
    pub(super) fn aims_at(&self, places: &[Point]) -> bool {
        self.aim.get().is_some_and(|aim| places.contains(&aim))
    }

    /// Where the next process dies, if it does.
    fn death(&self, places: &[Point]) -> Option<Death> {
        if let Some(at) = self.aim.get().filter(|aim| places.contains(aim)) {
            return Some(Death { at, visit: 1 });
        }
        // A schedule with an aim leaves some alive until it is there.
        let of_100 = if self.aim.get().is_some() { 30 } else { 60 };
        if self.deaths_left.get() == 0 || !self.chance(of_100) {
            return None;
        }
        let at = places[self.random.borrow_mut().random_range(0..places.len())];
        let visit = if self.chance(85) { 1 } else { 2 };
        Some(Death { at, visit })
    }

    async fn process<F>(
        &self,
        what: &str,
        places: &[Point],
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Ending
    where
        F: Future<Output = ()> + 'static,
    {
        let death = self.death(places);
        let ending = process::run(self.ahead_ms.get(), death, LIMIT, work).await;
        if let Ending::At(at) = ending {
            self.deaths_left
                .set(self.deaths_left.get().saturating_sub(1));
            if self.aim.get() == Some(at) {
                self.aim.set(None);
            }
        }
        self.note(format!("{what}: {ending:?}"));
        ending
    }

    pub(super) async fn is_held(&self) -> bool {
        let meta = self.scene.school().meta(&self.scene.conversation()).await;
        meta.unwrap().is_some_and(|meta| meta.is_held(now()))
    }

    /// A chat request of a client that stays for the answer, or leaves when it was taken in.
    async fn chat(&self, what: &str, places: &[Point], body: &Value, stays: bool) -> Ending {
        let agent = self.scene.another_agent();
        let request = ChatRequest {
            tenant: self.scene.tenant.clone(),
            user: self.scene.admin.clone(),
            posted: Posted::parse(body).unwrap(),
            request: None,
            budget: budget(),
        };
        let patience = if stays { LIMIT } else { PATIENCE };
        let work = async move || {
            let Ok(mut stream) = agent.chat(request).await else {
                return;
            };
            let read = async { while stream.recv().await.is_some() {} };
            _ = tokio::time::timeout(patience, read).await;
        };
        self.process(what, places, work).await
    }

    async fn has(&self, id: &str) -> bool {
        let school = self.scene.school();
        let chat = self.scene.conversation();
        let history = school.history(&chat).await.unwrap();
        let told = history.messages.iter().any(
            |row| matches!(&row.author, MessageAuthor::User { id: own, .. } if own.as_str() == id),
        );
        let waiting = school.inbox(&chat).await.unwrap();
        told || waiting.iter().any(|row| row.message.as_str() == id)
    }

    /// A message whose runner dies before it has done anything.
    pub(super) async fn say_to_the_dying(&self, id: &str, text: &str) {
        let at = [Point::TurnBeforeModel];
        let before = self.aim.replace(Some(at[0]));
        self.chat(&format!("say {text:?}"), &at, &message(id, text), true)
            .await;
        self.aim.set(before);
    }

    /// A person says something, and says it again if it came to nothing.
    pub(super) async fn say(&self, id: &str, text: &str) {
        for _ in 0..8 {
            // Behind a dead runner a client could only look on.
            let stays = !self.is_held().await;
            let what = format!("say {text:?}");
            self.chat(&what, IN_CHAT, &message(id, text), stays).await;
            if self.has(id).await {
                return;
            }
        }
        panic!("{text:?} is never stored");
    }

    /// The same message once more, as a client does that heard nothing.
    pub(super) async fn say_again(&self, id: &str, text: &str) {
        self.chat("say it again", IN_CHAT, &message(id, text), false)
            .await;
    }

    /// A worker that was given a hint, whenever that was sent.
    pub(super) async fn worker(&self) -> Ending {
        let places = self.places().await;
        let (agent, tenant, chat) = (
            self.scene.another_agent(),
            self.scene.tenant.clone(),
            self.scene.conversation(),
        );
        let work = async move || {
            work(&agent, &tenant, &chat).await.unwrap();
        };
        self.process("work", &places, work).await
    }

    /// Where a run of what there is to do may die.
    async fn places(&self) -> Vec<Point> {
        let school = self.scene.school();
        let chat = self.scene.conversation();
        let meta = school.meta(&chat).await.unwrap().unwrap();
        let open = school.open_turns(&meta).await.unwrap();
        let inbox = school.inbox(&chat).await.unwrap();
        let places = match next_work(&open, &inbox, now(), i64::MAX) {
            Work::Expire(_) => IN_EXPIRE.to_vec(),
            Work::Call(_) => [IN_CALL, IN_CALL, IN_CONTINUE, IN_TURN].concat(),
            Work::Continue(_) => [IN_CONTINUE, IN_TURN].concat(),
            Work::TakeOver(_) => [IN_TAKEOVER, IN_TAKEOVER, IN_START, IN_TURN].concat(),
            Work::Start(_) => [IN_START, IN_START, IN_TURN].concat(),
            Work::Interrupt(_) | Work::HandOver | Work::Idle => Vec::new(),
        };
        [places.as_slice(), IN_ANY_WORK].concat()
    }

    async fn sweep(&self, name: &'static str) {
        let sweeper = Sweeper {
            store: self.scene.stage.store.clone(),
            queue: self.scene.stage.queue.clone(),
        };
        let ask = Ask {
            sweep: name.to_owned(),
        };
        let work = async move || {
            sweeper.sweep(&ask, now).await.unwrap();
        };
        self.process(&format!("sweep {name}"), IN_SWEEP, work).await;
    }

    pub(super) async fn sweep_all(&self) {
        self.sweep("approvals").await;
        self.sweep("turns").await;
    }

    /// A person answers on the approval's own route; the status, if they get one.
    pub(super) async fn decide(&self, id: ApprovalId, approve: bool) -> Option<u16> {
        let app = App {
            identity: Identity::new(
                self.scene.stage.store.clone(),
                start::http_client(true).unwrap(),
                true,
            ),
            store: self.scene.stage.store.clone(),
            queue: self.scene.stage.queue.clone(),
        };
        let decision = if approve { "approve" } else { "reject" };
        let token = self.issuer.token(self.scene.admin.as_str());
        let request = Request::post(format!("/approvals/{id}/decision"))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Body::from(json!({ "decision": decision }).to_string()))
            .unwrap();
        let status = Arc::new(Mutex::new(None));
        let told = Arc::clone(&status);
        let work = async move || {
            let router = service(routes(Arc::new(app)), None);
            let response = router.oneshot(request).await.unwrap();
            *told.lock().unwrap() = Some(response.status().as_u16());
        };
        self.process(&format!("{decision} {id}"), IN_DECISION, work)
            .await;
        let status = *status.lock().unwrap();
        self.note(format!("answered {status:?}"));
        status
    }

    /// A person answers on the card in the chat, as their client sends it.
    pub(super) async fn answer_in_chat(&self, id: ApprovalId, approve: bool) {
        let messages = self.scene.messages().await;
        let has_card = |message: &&Value| {
            let parts = message["parts"].as_array().unwrap();
            parts
                .iter()
                .any(|part| part["approval"]["id"] == id.to_string())
        };
        let message = messages.iter().find(has_card).expect("a card");
        let mut screen = Screen {
            id: message["id"].as_str().unwrap().to_owned(),
            parts: message["parts"].as_array().unwrap().clone(),
            ..Screen::default()
        };
        screen.answer(&id.to_string(), approve, None);
        let aims = self.aims_at(IN_ANSWER);
        let places = if aims || self.chance(50) {
            IN_ANSWER
        } else {
            IN_CALL
        };
        let what = format!("answer {approve} in the chat to {id}");
        let stays = !self.is_held().await;
        self.chat(&what, places, &continued(&screen), stays).await;
    }

    /// Workers and sweeps work until there is nothing that they would do.
    pub(super) async fn come_to_rest(&self) {
        for _ in 0..80 {
            let mut worked = false;
            for _hint in self.scene.stage.hints().await {
                if self.chance(20) {
                    self.note("a hint is lost".to_owned());
                    continue;
                }
                worked = true;
                if self.chance(25) {
                    self.note("a hint comes twice at once".to_owned());
                    tokio::join!(self.worker(), self.worker());
                } else {
                    self.worker().await;
                }
                super::check::effects(self).await;
            }
            if self.rests().await {
                return;
            }
            if !worked {
                self.pass(LEASE_OVER_MS);
                self.sweep_all().await;
                super::check::effects(self).await;
            }
        }
        panic!("it never comes to rest");
    }

    /// Nobody is at work, and nothing waits for anything but people and their time.
    async fn rests(&self) -> bool {
        let moves = |state: State| matches!(state, State::Approved | State::Executing);
        let rows = self.scene.school().recent_approvals(None, 100).await;
        let rows = rows.unwrap().items;
        !rows.iter().any(|row| moves(row.state))
            && !self.is_held().await
            && self.scene.due(now()).await.is_empty()
    }
}
