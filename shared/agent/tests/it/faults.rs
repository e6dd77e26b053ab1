//! Each way in which a tool's server can fail, for a write and for a read.

use serde_json::{Value, json};
use toshi_agent::RunEnd;
use toshi_core::{State, TurnState};

use crate::scene::Scene;
use crate::strict::Screen;

const POST: &str = "post \"Hi\" to #general";

struct Fault {
    switch: &'static str,
    value: Value,
    /// Where the write's approval ends.
    state: State,
    /// Calls that took effect at the server.
    effects: usize,
    /// How the model's result begins, and what a person reads.
    model: &'static str,
    person: &'static str,
    /// How a read's result begins.
    read: &'static str,
}

const UNKNOWN: &str = "outcome unknown: it may have been done. Do not repeat it; verify by reading";
const UNKNOWN_PERSON: &str = "We do not know whether this was done, and Toshi will not try again. \
    Please check in Demo workspace (Lakeside workspace) and say what you found.";
const REFUSED_PERSON: &str =
    "Not done: Demo workspace (Lakeside workspace) did not accept the request.";
const ERROR_PERSON: &str = "Demo workspace (Lakeside workspace) reported an error. Part of it may \
    have been done; please check there.";

fn faults() -> Vec<Fault> {
    let unknown = |switch, value, effects, read| Fault {
        switch,
        value,
        state: State::Unknown,
        effects,
        model: UNKNOWN,
        person: UNKNOWN_PERSON,
        read,
    };
    let refused = |switch, value, model| Fault {
        switch,
        value,
        state: State::Failed,
        effects: 0,
        model,
        person: REFUSED_PERSON,
        read: model,
    };
    let status = "failed, did not run: the server answered HTTP";
    vec![
        unknown(
            "mcp.demo.drop_reply_after_commit",
            json!(true),
            1,
            "failed, did not run: the connection ended before an answer",
        ),
        unknown(
            "mcp.demo.status_after_commit",
            json!(404),
            1,
            "failed, did not run: the server",
        ),
        unknown("mcp.demo.status_after_commit", json!(500), 1, status),
        unknown("mcp.demo.status_after_commit", json!(503), 1, status),
        unknown(
            "mcp.demo.oversized_result",
            json!(true),
            1,
            "failed, did not run: the answer was too large to read",
        ),
        unknown(
            "mcp.demo.rpc_error",
            json!(-32603),
            0,
            "failed, did not run: the server answered error -32603",
        ),
        refused(
            "mcp.demo.rpc_error",
            json!(-32602),
            "failed, did not run: the server answered error -32602",
        ),
        refused(
            "mcp.demo.reject_with",
            json!(400),
            "failed, did not run: the server answered HTTP 400",
        ),
        refused(
            "mcp.demo.reject_with",
            json!(401),
            "failed, did not run: the server answered HTTP 401",
        ),
        refused(
            "mcp.demo.reject_with",
            json!(403),
            "failed, did not run: the server answered HTTP 403",
        ),
        refused(
            "mcp.demo.reject_with",
            json!(429),
            "failed, did not run: the server answered HTTP 429",
        ),
        Fault {
            switch: "mcp.demo.is_error",
            value: json!(true),
            state: State::Failed,
            effects: 0,
            model: "failed: Demo workspace · post_message reported an error; part of it may have been done",
            person: ERROR_PERSON,
            read: "failed: Demo workspace · list_messages reported an error",
        },
    ]
}

#[tokio::test]
async fn each_fault_of_a_write_ends_in_its_state_and_is_never_sent_again() {
    let scene = Scene::new().await;
    for (n, fault) in faults().into_iter().enumerate() {
        let name = format!("{} = {}", fault.switch, fault.value);
        let before = scene.posts().await.len();
        // Another text each time: an unknown outcome blocks the same call.
        let screen = scene.say(&format!("post \"Number {n}\" to #general")).await;
        let id = scene.one_pending().await;
        scene.switch(fault.switch, fault.value).await;
        scene.approve(id).await;
        assert_eq!(scene.work().await, RunEnd::Idle);
        assert_eq!(scene.state(id).await, fault.state, "{name}");
        scene.switch(fault.switch, Value::Null).await;
        for _ in 0..2 {
            scene.work().await;
        }
        assert_eq!(scene.posts().await.len() - before, fault.effects, "{name}");
        let told = scene.told().await.pop().unwrap();
        assert!(told.starts_with(fault.model), "{name}: {told}");
        let answer = scene.last_answer().await;
        assert_eq!(answer["id"], screen.id, "{name}");
        assert_eq!(answer["parts"][1]["state"], "output-error", "{name}");
        assert_eq!(answer["parts"][1]["errorText"], fault.person, "{name}");
        assert_eq!(
            answer["parts"].as_array().unwrap().len(),
            4,
            "{name}: the turn went on"
        );
        assert_eq!(
            scene.approval(id).await.attempt.unwrap().number,
            1,
            "{name}"
        );
    }
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn each_fault_of_a_read_is_told_to_the_model_and_the_turn_goes_on() {
    for fault in faults() {
        let name = format!("{} = {}", fault.switch, fault.value);
        let scene = Scene::new().await;
        scene.switch(fault.switch, fault.value).await;
        let screen = scene.say("read #general").await;
        assert_eq!(screen.finish, "stop", "{name}");
        assert_eq!(screen.states(), ["output-error"], "{name}");
        let told = scene.told().await.pop().unwrap();
        assert!(told.starts_with(fault.read), "{name}: {told}");
        assert!(!told.starts_with("outcome unknown"), "{name}");
        assert!(!screen.text().is_empty(), "{name}");
        screen.assert_is_stored_as(&scene.last_answer().await);
        scene.assert_at_rest().await;
    }
}

#[tokio::test]
async fn a_chat_answer_to_an_unknown_outcome_settles_its_card() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene
        .switch("mcp.demo.drop_reply_after_commit", json!(true))
        .await;
    scene.answer(&mut screen, &[(id, true)]).await;
    assert_eq!(screen.states(), ["output-error"]);
    assert_eq!(screen.calls()[0]["errorText"], UNKNOWN_PERSON);
    assert!(screen.text().contains("I do not know whether"));
    screen.assert_is_stored_as(&scene.last_answer().await);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_after_the_calls_own_time() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.switch("mcp.demo.hang", json!(true)).await;
    scene.approve(id).await;
    let start = std::time::Instant::now();
    assert_eq!(scene.work().await, RunEnd::Idle);
    let took = start.elapsed().as_secs();
    assert!((19..=26).contains(&took), "{took} s");
    assert_eq!(scene.state(id).await, State::Unknown);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    assert!(scene.told().await[0].starts_with(UNKNOWN));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn the_same_call_is_refused_while_its_outcome_is_unknown_and_possible_once_it_is_resolved() {
    let scene = Scene::new().await;
    scene
        .switch("mcp.demo.drop_reply_after_commit", json!(true))
        .await;
    scene.say(POST).await;
    let first = scene.one_pending().await;
    scene.approve(first).await;
    scene.work().await;
    assert_eq!(scene.state(first).await, State::Unknown);
    scene
        .switch("mcp.demo.drop_reply_after_commit", Value::Null)
        .await;

    let blocked = scene.say(POST).await;
    assert_eq!(blocked.finish, "stop");
    assert_eq!(blocked.states(), ["output-error"]);
    assert_eq!(scene.pending().await, []);
    let told = scene.told().await;
    assert!(
        told.last()
            .unwrap()
            .starts_with("blocked by policy, not executed: the same call"),
        "{told:?}"
    );
    blocked.assert_is_stored_as(&scene.last_answer().await);
    // Another call of the same tool is none of it.
    scene.say("post \"Other\" to #general").await;
    let other = scene.one_pending().await;
    scene.reject(other, "No").await;
    scene.work().await;

    scene.resolve(first, false).await;
    scene.say("hello").await;
    let told = scene.told().await;
    assert!(
        told[0].starts_with("failed, did not run: the outcome had been unknown"),
        "{told:?}"
    );
    scene.say(POST).await;
    let again = scene.one_pending().await;
    scene.approve(again).await;
    scene.work().await;
    assert_eq!(scene.state(again).await, State::Succeeded);
    assert_eq!(scene.posts().await.len(), 2);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn one_of_two_calls_in_a_step_may_be_blocked_and_the_other_asked() {
    let scene = Scene::new().await;
    scene
        .switch("mcp.demo.drop_reply_after_commit", json!(true))
        .await;
    scene.say(POST).await;
    let first = scene.one_pending().await;
    scene.approve(first).await;
    scene.work().await;
    scene
        .switch("mcp.demo.drop_reply_after_commit", Value::Null)
        .await;
    let screen = scene
        .say("post \"Hi\" to #general and \"Ho\" to #staff")
        .await;
    assert_eq!(screen.states(), ["output-error", "approval-requested"]);
    screen.assert_is_stored_as(&scene.last_answer().await);
    let id = scene.one_pending().await;
    scene.approve(id).await;
    scene.work().await;
    let posts = scene.posts().await;
    assert_eq!(posts.last().unwrap()["text"], "Ho");
    assert_eq!(posts.len(), 2);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn an_abandoned_call_is_unknown_and_its_late_result_still_counts() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    scene.switch("mcp.demo.delay_ms", json!(400)).await;
    let sweep = async {
        while scene.state(id).await != State::Executing {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        // As if two minutes had passed.
        scene
            .sweep(id, toshi_test_support::now().plus(120_000))
            .await;
        assert_eq!(scene.state(id).await, State::Unknown);
    };
    tokio::join!(scene.work(), sweep);
    assert_eq!(scene.state(id).await, State::Succeeded);
    scene.work().await;
    assert!(scene.last_text().await.starts_with("Posted"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_long_answer_is_shortened_for_the_model_and_kept_whole() {
    let scene = Scene::new().await;
    scene
        .switch("mcp.demo.oversized_result", json!(400_000))
        .await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.answer(&mut screen, &[(id, true)]).await;
    let row = scene.approval(id).await;
    assert_eq!(row.state, State::Succeeded);
    assert_eq!(row.chunks, 2);
    let told = scene.told().await;
    assert!(told[0].contains("(part 1 of 25, 400000 bytes in all; read on with read_result"));
    assert!(told[0].len() < 17_000);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_definition_that_changed_before_the_call_is_asked_again_and_withheld() {
    let scene = Scene::new().await;
    for change in ["description", "schema", "annotations"] {
        scene
            .switch("mcp.demo.changed_definition", Value::Null)
            .await;
        let mut screen = scene.say(&format!("post \"{change}\" to #general")).await;
        assert_eq!(
            screen.states(),
            ["approval-requested"],
            "{change}: offered again"
        );
        let id = scene.one_pending().await;
        scene
            .switch("mcp.demo.changed_definition", json!(change))
            .await;
        scene.answer(&mut screen, &[(id, true)]).await;
        assert_eq!(scene.state(id).await, State::Superseded, "{change}");
        let successor = scene.one_pending().await;
        assert_eq!(scene.approval(id).await.superseded_by, Some(successor));
        assert_eq!(screen.states(), ["approval-requested"], "{change}");
        assert_eq!(screen.calls()[0]["approval"]["id"], successor.to_string());
        assert_eq!(screen.text(), "", "nothing is said beside the new card");
        screen.assert_is_stored_as(&scene.last_answer().await);
        // A page that missed this sends its old answer once more, and is shown the new question.
        let mut stale = screen.clone();
        stale.parts[1]["approval"] = json!({ "id": id.to_string() });
        scene.answer(&mut stale, &[(id, true)]).await;
        assert_eq!(stale.calls()[0]["approval"]["id"], successor.to_string());
        // Nobody has reviewed the new definition.
        scene.answer(&mut screen, &[(successor, true)]).await;
        assert_eq!(scene.state(successor).await, State::Blocked);
        assert_eq!(screen.states(), ["output-error"]);
        assert!(
            scene
                .told()
                .await
                .last()
                .unwrap()
                .starts_with("blocked by policy")
        );
    }
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_definition_that_came_back_before_the_second_answer_is_asked_once_more_and_runs() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene
        .switch("mcp.demo.changed_definition", json!("description"))
        .await;
    scene.answer(&mut screen, &[(id, true)]).await;
    let second = scene.one_pending().await;
    scene
        .switch("mcp.demo.changed_definition", Value::Null)
        .await;
    scene.answer(&mut screen, &[(second, true)]).await;
    assert_eq!(scene.state(second).await, State::Superseded);
    let third = scene.one_pending().await;
    scene.answer(&mut screen, &[(third, true)]).await;
    assert_eq!(scene.state(third).await, State::Succeeded);
    assert_eq!(scene.posts().await.len(), 1);
    screen.assert_is_stored_as(&scene.last_answer().await);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_session_that_was_lost_before_the_claim_is_opened_again() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.switch("mcp.demo.drop_session", json!(true)).await;
    scene.answer(&mut screen, &[(id, true)]).await;
    assert_eq!(scene.state(id).await, State::Succeeded);
    assert_eq!(scene.posts().await.len(), 1);
    scene.switch("mcp.demo.drop_session", json!(true)).await;
    let read = scene.say("read #general").await;
    assert_eq!(read.states(), ["output-available"]);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_before_the_claim_means_not_sent() {
    let mut scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    // A port that nothing listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    scene.reach_tools_through(&format!("http://{free}"));
    scene.approve(id).await;
    assert_eq!(scene.work().await, RunEnd::Idle);
    let row = scene.approval(id).await;
    assert_eq!(row.state, State::Failed);
    assert_eq!(row.not_sent, Some(toshi_core::NotSent::ServerUnreachable));
    assert!(scene.told().await[0].starts_with("failed, did not run: the tool's server"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_claim_needs_its_time_after_the_check_and_not_only_before() {
    let mut scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    let slow = Slow::before(&scene.url, 400).await;
    scene.reach_tools_through(&slow.url);
    scene.approve(id).await;
    let budget = toshi_agent::Budget::until(toshi_test_support::now().plus(60_300));
    let (tenant, conversation) = (scene.tenant.clone(), scene.conversation());
    let run = scene.agent.run(&tenant, &conversation, budget);
    assert_eq!(run.await.unwrap(), RunEnd::HandedOver);
    assert_eq!(scene.state(id).await, State::Approved, "not claimed");
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(id).await, State::Succeeded);
}

/// A way to a server that takes its time with each connection.
struct Slow {
    url: String,
    _serving: tokio::task::JoinSet<()>,
}

impl Slow {
    async fn before(url: &str, ms: u64) -> Self {
        let behind = url.strip_prefix("http://").unwrap().to_owned();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(async move {
            let mut pipes = tokio::task::JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let behind = behind.clone();
                pipes.spawn(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
                    let mut far = tokio::net::TcpStream::connect(behind).await.unwrap();
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self {
            url,
            _serving: serving,
        }
    }
}

#[tokio::test]
async fn a_turn_whose_model_fails_is_done_and_says_why() {
    let rows = [
        ("llm.status", json!(500), "the model cannot be reached"),
        ("llm.status", json!(429), "the model is busy"),
        ("llm.status", json!(401), "the model refused our key"),
        (
            "llm.status",
            json!(400),
            "the model refused the request (HTTP 400)",
        ),
        ("llm.cut", json!(true), "the model's answer broke off"),
    ];
    let scene = Scene::new().await;
    for (switch, value, why) in rows {
        scene.switch(switch, value).await;
        let id = crate::scene::fresh_id();
        let chunks = scene
            .post(crate::scene::message(&id, "hello"))
            .await
            .unwrap();
        let screen = Screen::of(&chunks);
        let sentence = screen.error.clone().unwrap();
        assert!(sentence.contains(why), "{sentence}");
        assert_eq!(scene.last_text().await, sentence, "a reload shows it");
        let again = scene
            .post(crate::scene::message(&id, "hello"))
            .await
            .unwrap();
        assert_eq!(Screen::of(&again).error, Some(sentence), "so does a replay");
        let turn = scene.turns().await.pop().unwrap();
        assert!(matches!(turn.state, TurnState::Done { .. }));
        scene.switch(switch, Value::Null).await;
    }
    assert!(scene.say("hello").await.error.is_none());
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_model_that_fails_after_the_call_was_made_loses_nothing_of_it() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.switch("llm.status", json!(500)).await;
    scene.answer(&mut screen, &[(id, true)]).await;
    assert_eq!(screen.states(), ["output-available"]);
    assert!(screen.error.is_some());
    assert_eq!(scene.state(id).await, State::Succeeded);
    assert_eq!(scene.posts().await.len(), 1);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_call_whose_stored_arguments_were_altered_is_not_sent() {
    let scene = Scene::new().await;
    scene.say("post \"Hi\" to #general").await;
    let id = scene.one_pending().await;
    let pk = format!("T#{}#C#{}", scene.tenant, scene.conversation());
    let s = |text: String| aws_sdk_dynamodb::types::AttributeValue::S(text);
    scene
        .stage
        .db
        .update_item()
        .table_name(&scene.stage.table)
        .key("PK", s(pk))
        .key("SK", s(format!("AP#{id}")))
        .update_expression("SET arguments = :other")
        .expression_attribute_values(
            ":other",
            s(r##"{"channel":"#general","text":"Something else"}"##.to_owned()),
        )
        .send()
        .await
        .unwrap();
    scene.approve(id).await;
    scene.work().await;
    assert_eq!(scene.state(id).await, State::Blocked);
    assert!(scene.posts().await.is_empty());
}
