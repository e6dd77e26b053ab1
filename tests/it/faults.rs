//! The demo server misbehaves: each fault ends in its state, and nothing is sent twice.

use serde_json::{Value, json};

use crate::harness::{Chat, Person, Stack, fresh, last_text};

/// What a fault comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Succeeded,
    /// Nothing was done, in these words for the model.
    Failed(&'static str),
    Unknown,
}
use End::{Failed, Succeeded, Unknown};

/// One write under a switch: its state, its calls, what the model and the person are told.
async fn write_under(school: &str, switches: Value, effects: usize, end: End) {
    let stack = Stack::alone().await;
    let admin = stack.person(&format!("{school}-admin")).await;
    let chat = admin.chat();
    let text = fresh("fault");
    let id = chat.ask_to_post(&text, "#general").await;
    stack.switch(switches.clone()).await;
    admin.approve(&id).await;
    let state = match end {
        Succeeded => "succeeded",
        Failed(_) => "failed",
        Unknown => "unknown",
    };
    let row = admin.until(&id, state, 40).await;
    let words = match end {
        Succeeded => format!("“{text}” to #general"),
        Failed(words) => words.to_owned(),
        Unknown => format!("I do not know whether “{text}” was posted"),
    };
    let messages = chat.until_told(&words, 20).await;
    stack.behave();
    assert_eq!(stack.posted(&text).await, effects, "{switches}");
    assert_eq!(row["attempts"], 1, "sent once: {row}");
    let answer = messages.last().expect("an answer");
    let call = &answer["parts"][1];
    let events = admin.events(&id).await;
    assert_eq!(
        events,
        ["requested", "decided", "claimed", "settled"],
        "{switches}"
    );
    if end == Succeeded {
        assert_eq!(call["state"], "output-available", "{call}");
        return;
    }
    assert_eq!(call["state"], "output-error", "{call}");
    assert_eq!(
        call["errorText"], row["outcome_note"],
        "the card and the row say the same"
    );
    if end != Unknown {
        resolving_is_refused(&admin, &id).await;
        return;
    }
    let note = row["outcome_note"].as_str().expect("a sentence");
    assert!(note.contains("do not know") && note.contains("Lakeside") == (school == "lakeside"));
    assert!(last_text(answer).contains("Do not repeat it"), "{answer}");
    unknown_until_resolved(&stack, &chat, &id, &text, effects).await;
}

async fn resolving_is_refused(admin: &Person<'_>, id: &str) {
    admin
        .resolve(id, "done", "I looked")
        .await
        .problem(409, "no_longer_open");
}

/// While unknown, the identical call is blocked; a person's word ends that, once.
async fn unknown_until_resolved(
    stack: &Stack,
    chat: &Chat<'_>,
    id: &str,
    text: &str,
    effects: usize,
) {
    let admin = chat.person;
    let again = chat.say(&format!("post \"{text}\" to #general")).await;
    assert_eq!(
        again.approvals(),
        Vec::<String>::new(),
        "an identical call is not asked"
    );
    let refused = again
        .of_kind("tool-output-error")
        .next()
        .expect("a refusal");
    let told = refused["errorText"].as_str().expect("a sentence");
    assert!(told.contains("outcome is still unknown"), "{told}");
    assert!(
        again.text().contains("blocked by policy"),
        "{}",
        again.text()
    );

    // What is true is what a person finds in the workspace.
    let (truth, other) = if effects == 1 {
        ("done", "not_done")
    } else {
        ("not_done", "done")
    };
    let first = admin
        .resolve(id, truth, "I looked in the channel")
        .await
        .ok();
    assert_eq!(first["state"], format!("resolved_{truth}"));
    assert_eq!(first["resolved_by"]["id"], admin.name);
    assert_eq!(first["resolved_reason"], "I looked in the channel");
    let same = admin
        .resolve(id, truth, "I looked in the channel")
        .await
        .ok();
    assert_eq!(same, first, "the same answer again is the same answer");
    let problem = admin
        .resolve(id, other, "I am not sure")
        .await
        .problem(409, "already_decided");
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|text| text.contains("admin")),
        "{problem}"
    );
    assert_eq!(admin.approval(id).await, first);
    assert_eq!(
        admin.events(id).await,
        ["requested", "decided", "claimed", "settled", "resolved"]
    );
    assert_eq!(stack.posted(text).await, effects, "no second call");
}

macro_rules! faults {
    ($($name:ident: $school:literal, $switches:tt => $effects:literal, $end:expr;)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                write_under($school, json!($switches), $effects, $end).await;
            }
        )+
    };
}

const REFUSED: &str = "failed, did not run";
const PARTLY: &str = "part of it may have been done";

faults! {
    a_reply_that_is_dropped_after_the_effect_is_unknown:
        "lakeside", { "mcp.demo.drop_reply_after_commit": true } => 1, Unknown;
    a_404_after_the_effect_is_unknown_and_no_lost_session:
        "hilltop", { "mcp.demo.status_after_commit": 404 } => 1, Unknown;
    a_500_after_the_effect_is_unknown:
        "lakeside", { "mcp.demo.status_after_commit": 500 } => 1, Unknown;
    a_503_after_the_effect_is_unknown:
        "hilltop", { "mcp.demo.status_after_commit": 503 } => 1, Unknown;
    a_result_that_is_too_large_is_unknown:
        "lakeside", { "mcp.demo.oversized_result": true } => 1, Unknown;
    a_session_that_is_lost_at_the_call_is_unknown:
        "hilltop", { "mcp.demo.drop_session": { "value": true, "tool": "post_message" } } => 0, Unknown;
    an_internal_error_of_the_server_is_unknown:
        "lakeside", { "mcp.demo.rpc_error": -32603 } => 0, Unknown;
    an_error_of_the_servers_own_is_unknown:
        "hilltop", { "mcp.demo.rpc_error": -32000 } => 0, Unknown;
    a_server_that_hangs_is_unknown_after_the_calls_time:
        "hilltop", { "mcp.demo.hang": true } => 0, Unknown;
    arguments_that_the_server_refuses_fail:
        "lakeside", { "mcp.demo.rpc_error": -32602 } => 0, Failed(REFUSED);
    a_400_fails:
        "hilltop", { "mcp.demo.reject_with": { "value": 400, "tool": "post_message" } } => 0, Failed(REFUSED);
    a_401_fails:
        "lakeside", { "mcp.demo.reject_with": { "value": 401, "tool": "post_message" } } => 0, Failed(REFUSED);
    a_403_fails:
        "hilltop", { "mcp.demo.reject_with": { "value": 403, "tool": "post_message" } } => 0, Failed(REFUSED);
    a_429_fails:
        "lakeside", { "mcp.demo.reject_with": { "value": 429, "tool": "post_message" } } => 0, Failed(REFUSED);
    an_error_that_the_tool_reports_fails_and_may_be_partly_done:
        "hilltop", { "mcp.demo.is_error": true } => 0, Failed(PARTLY);
    a_session_that_is_lost_before_the_call_is_renewed:
        "lakeside", { "mcp.demo.drop_session": true } => 1, Succeeded;
    a_slow_answer_is_waited_for:
        "hilltop", { "mcp.demo.delay_ms": 2000 } => 1, Succeeded;
    an_answer_as_an_event_stream_is_read:
        "lakeside", { "mcp.demo.sse": true } => 1, Succeeded;
    a_tool_list_in_pages_is_read_whole:
        "hilltop", { "mcp.demo.page_size": 1 } => 1, Succeeded;
    a_dropped_reply_of_a_stateless_server_is_unknown:
        "lakeside", { "mcp.demo.protocol": "2026-07-28", "mcp.demo.drop_reply_after_commit": true } => 1, Unknown;
    a_404_of_a_stateless_server_after_the_effect_is_unknown:
        "hilltop", { "mcp.demo.protocol": "2026-07-28", "mcp.demo.status_after_commit": 404 } => 1, Unknown;
    a_question_back_instead_of_a_result_is_unknown:
        "lakeside", { "mcp.demo.protocol": "2026-07-28", "mcp.demo.unfinished": "input_required" } => 0, Unknown;
    a_task_instead_of_a_result_is_unknown:
        "hilltop", { "mcp.demo.protocol": "2026-07-28", "mcp.demo.unfinished": "task" } => 1, Unknown;
    a_method_that_a_stateless_server_does_not_know_fails:
        "lakeside", { "mcp.demo.protocol": "2026-07-28", "mcp.demo.refuse_as": "unknown_method" } => 0, Failed(REFUSED);
    headers_that_a_stateless_server_refuses_fail:
        "hilltop", { "mcp.demo.protocol": "2026-07-28", "mcp.demo.refuse_as": "header_mismatch" } => 0, Failed(REFUSED);
    a_tool_that_asks_for_headers_wrongly_does_not_disturb_the_others:
        "lakeside", { "mcp.demo.protocol": "2026-07-28", "mcp.demo.changed_definition": "bad_headers" } => 1, Succeeded;
    an_event_stream_of_a_stateless_server_is_read:
        "hilltop", { "mcp.demo.protocol": "2026-07-28", "mcp.demo.sse": true } => 1, Succeeded;
}

#[tokio::test]
async fn what_was_found_out_is_told_to_the_model_and_the_call_may_be_asked_again() {
    let stack = Stack::alone().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("found");
    let id = chat.ask_to_post(&text, "#general").await;
    stack.switch(json!({ "mcp.demo.rpc_error": -32000 })).await;
    admin.approve(&id).await;
    admin.until(&id, "unknown", 20).await;
    chat.until_told("I do not know whether", 20).await;
    stack.behave();
    admin
        .resolve(&id, "not_done", "it is not in the channel")
        .await
        .ok();

    let again = chat.ask_to_post(&text, "#general").await;
    let prompts = stack.prompts(&text).await;
    let said = prompts.last().expect("a prompt").to_string();
    assert!(
        said.contains("a person checked and says it was not done"),
        "{said}"
    );
    admin.approve(&again).await;
    admin.until(&again, "succeeded", 20).await;
    assert_eq!(stack.posted(&text).await, 1);
}

#[tokio::test]
async fn an_answer_that_comes_after_the_calls_time_is_no_second_call() {
    let stack = Stack::alone().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("slow");
    let id = chat.ask_to_post(&text, "#general").await;
    stack.switch(json!({ "mcp.demo.delay_ms": 25_000 })).await;
    admin.approve(&id).await;
    crate::harness::eventually("the effect", 20, async || {
        (stack.posted(&text).await == 1).then_some(())
    })
    .await;
    // The answer to this call stays slow; nobody else's is.
    stack.step_aside();
    let row = admin.until(&id, "unknown", 40).await;
    stack.share().await;
    assert_eq!(row["attempts"], 1);
    chat.until_told("I do not know whether", 20).await;
    unknown_until_resolved(&stack, &chat, &id, &text, 1).await;
}
