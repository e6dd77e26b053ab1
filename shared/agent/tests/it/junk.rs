//! What becomes of output that no model should write: what is stored, shown and told.

use serde_json::{Value, json};
use toshi_core::{CallOutcome, Finish, TurnEnd, TurnState};

use crate::scene::Scene;
use crate::strict::Screen;

const READ: &str = "read #general";
const POST: &str = "post \"Hi\" to #staff";
const BOTH: &str = "read #general and post \"Hi\" to #staff";
const NONE: [&str; 0] = [];

impl Scene {
    /// One turn in which the model misbehaves in this way.
    async fn misled(&self, switch: &str, value: Value, request: &str) -> Screen {
        self.switch(switch, value).await;
        let screen = self.say(request).await;
        self.switch(switch, Value::Null).await;
        screen
    }

    async fn last_end(&self) -> TurnEnd {
        match self.turns().await.pop().unwrap().state {
            TurnState::Done { end } => end,
            state => panic!("{state:?}"),
        }
    }

    /// Nothing was called, nothing is asked, and the screen shows what is stored.
    async fn assert_nothing_done(&self, screen: &Screen, what: &str) {
        assert_eq!(self.pending().await, [], "{what}");
        assert_eq!(
            self.calls("list_messages").await,
            [] as [Value; 0],
            "{what}"
        );
        assert_eq!(self.posts().await, [] as [Value; 0], "{what}");
        if screen.error.is_none() {
            screen.assert_is_stored_as(&self.last_answer().await);
        }
        self.assert_at_rest().await;
    }
}

#[tokio::test]
async fn calls_that_cannot_be_made_are_told_to_the_model_one_by_one() {
    let kinds = [
        (
            "unknown_tool",
            "there is no tool \"demo__delete_everything\" here",
        ),
        ("not_an_object", "the arguments must be one JSON object"),
        ("duplicate_keys", "the JSON is not well formed: "),
        (
            "huge_arguments",
            "the arguments are larger than 65536 bytes",
        ),
        ("bad_escape", "the JSON is not well formed: "),
    ];
    let scene = Scene::new().await;
    for (kind, told) in kinds {
        // It goes on once it has heard what became of its calls.
        let screen = scene.misled("llm.junk", json!(kind), BOTH).await;
        assert_eq!(screen.states(), ["output-error"; 2], "{kind}");
        assert_eq!(screen.finish, "stop", "{kind}");
        let results = scene.told().await;
        for result in &results[results.len() - 2..] {
            assert!(
                result.starts_with(&format!("failed, did not run: {told}")),
                "{kind}: {result:.300}"
            );
        }
        scene.assert_nothing_done(&screen, kind).await;
        let history = scene.school().history(&scene.conversation()).await.unwrap();
        let step = history
            .steps
            .iter()
            .rfind(|step| !step.calls.is_empty())
            .unwrap();
        let invalid = |outcome: &CallOutcome| matches!(outcome, CallOutcome::Invalid { .. });
        assert!(
            step.calls.iter().all(|call| invalid(&call.outcome)),
            "{kind}: {step:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_or_breaks_off_ends_its_turn_with_a_sentence() {
    let broke = "the model's answer broke off; please try again";
    let unreadable = "the model's answer could not be understood; nothing was done";
    let rows = [
        ("llm.junk", json!("bad_utf8"), unreadable),
        ("llm.junk", json!("no_name"), unreadable),
        ("llm.junk", json!("empty_choices"), broke),
        ("llm.junk", json!("usage_only"), broke),
        ("llm.error_midstream", json!(true), broke),
        ("llm.cut", json!(true), broke),
        ("llm.repeat_call_id", json!(true), unreadable),
    ];
    let scene = Scene::new().await;
    for (switch, value, sentence) in rows {
        let what = format!("{switch} {value}");
        let screen = scene.misled(switch, value, BOTH).await;
        let error = screen.error.clone().unwrap_or_default();
        assert!(error.contains(sentence), "{what}: {error}");
        assert_eq!(screen.states(), NONE, "{what}");
        scene.assert_nothing_done(&screen, &what).await;
        // A reload shows the same sentence, and so does the next prompt.
        assert!(scene.last_text().await.contains(sentence), "{what}");
        let end = scene.last_end().await;
        assert!(matches!(end, TurnEnd::Failed { .. }), "{what}: {end:?}");
    }
    scene.say("hello").await;
    let prompt = scene.prompts().await.pop().unwrap();
    let said = prompt["messages"].to_string();
    assert!(said.contains(broke) && said.contains(unreadable));
    assert!(scene.told().await.is_empty(), "no call of theirs is shown");
}

#[tokio::test]
async fn odd_but_whole_answers_are_taken_as_what_they_are() {
    for kind in [
        "shared_index",
        "out_of_order",
        "null_content",
        "other_roles",
    ] {
        let scene = Scene::new().await;
        let screen = scene.misled("llm.junk", json!(kind), BOTH).await;
        assert_eq!(
            screen.states(),
            ["output-available", "approval-requested"],
            "{kind}"
        );
        assert_eq!(screen.calls()[1]["input"]["text"], "Hi", "{kind}");
        assert_eq!(screen.calls()[1]["input"]["channel"], "#staff", "{kind}");
        assert_eq!(scene.calls("list_messages").await.len(), 1, "{kind}");
        scene.one_pending().await;
        screen.assert_is_stored_as(&scene.last_answer().await);
        scene.assert_at_rest().await;
    }
}

#[tokio::test]
async fn an_answer_of_nothing_but_nulls_is_an_answer_in_our_own_words() {
    let scene = Scene::new().await;
    let screen = scene
        .misled("llm.junk", json!("null_content"), "hello")
        .await;
    assert!(
        screen.text().starts_with("I have no answer to that"),
        "{}",
        screen.text()
    );
    scene.assert_nothing_done(&screen, "null_content").await;
}

#[tokio::test]
async fn calls_and_results_written_as_prose_are_words_and_nothing_else() {
    let scene = Scene::new().await;
    let screen = scene.misled("llm.junk", json!("prose"), BOTH).await;
    assert!(screen.text().contains("<tool_call>") && screen.text().contains("<tool_result>"));
    assert_eq!(screen.states(), NONE);
    scene.assert_nothing_done(&screen, "prose").await;
    // Not even its own later prompt takes them for calls.
    scene.say("hello").await;
    let prompt = scene.prompts().await.pop().unwrap();
    let messages = prompt["messages"].as_array().unwrap();
    assert!(
        messages
            .iter()
            .all(|message| message.get("tool_calls").is_none())
    );
    assert!(messages.iter().all(|message| message["role"] != "tool"));
    assert!(
        messages[0]["content"]
            .as_str()
            .unwrap()
            .contains("never write a call or a result as text")
    );
}

#[tokio::test]
async fn of_thousands_of_calls_in_a_step_a_few_are_made_and_the_turn_ends() {
    let scene = Scene::new().await;
    let screen = scene.misled("llm.junk", json!("many_calls"), READ).await;
    let mut states = vec!["output-available"; 8];
    states.extend(["output-error"; 8]);
    assert_eq!(screen.states(), states);
    assert!(
        screen.text().contains("the same call again and again"),
        "{}",
        screen.text()
    );
    assert_eq!(scene.calls("list_messages").await.len(), 8);
    screen.assert_is_stored_as(&scene.last_answer().await);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn cut_off_output_of_every_shape_is_never_asked_nor_run() {
    let too_long = "your output was cut off at its length limit; make the call again, shorter";
    let shorter = "if your output was cut off at its limit, make the call again, shorter";
    let rows = [
        ("llm.finish_length", "length", POST, too_long),
        ("llm.finish_length", "tool_calls", POST, shorter),
        ("llm.finish_length", "length", READ, too_long),
        ("llm.finish_length", "tool_calls", READ, shorter),
        ("llm.cut_keys", "length", POST, too_long),
        (
            "llm.cut_keys",
            "tool_calls",
            POST,
            "the arguments do not fit: \"text\" is missing.",
        ),
        ("llm.cut_keys", "length", READ, too_long),
        (
            "llm.cut_keys",
            "tool_calls",
            READ,
            "the arguments do not fit: \"channel\" is missing.",
        ),
    ];
    let scene = Scene::new().await;
    for (switch, word, request, words) in rows {
        let what = format!("{switch} {word} {request}");
        let screen = scene.misled(switch, json!(word), request).await;
        assert_eq!(screen.states(), ["output-error"], "{what}");
        let told = scene.told().await.pop().unwrap();
        assert!(told.starts_with("failed, did not run: "), "{what}: {told}");
        assert!(told.contains(words), "{what}: {told}");
        scene.assert_nothing_done(&screen, &what).await;
        let history = scene.school().history(&scene.conversation()).await.unwrap();
        let step = history
            .steps
            .iter()
            .rfind(|step| !step.calls.is_empty())
            .unwrap();
        let expected = if word == "length" {
            Finish::Length
        } else {
            Finish::ToolCalls
        };
        assert_eq!(step.finish, expected, "{what}");
    }
    let screen = scene.misled("llm.cut_text", json!("length"), "hello").await;
    assert!(
        screen
            .text()
            .ends_with("(My answer was cut off at its length limit.)")
    );
    scene.assert_nothing_done(&screen, "a text").await;
}

#[tokio::test]
async fn call_ids_that_a_provider_uses_again_are_harmless() {
    let scene = Scene::new().await;
    scene.switch("llm.same_call_ids", json!(true)).await;
    let mut first = scene.say(BOTH).await;
    let one = scene.one_pending().await;
    let second = scene.say("read #science and post \"Ho\" to #parents").await;
    let two = scene
        .pending()
        .await
        .into_iter()
        .find(|id| *id != one)
        .unwrap();
    assert_eq!(second.states(), ["output-available", "approval-requested"]);
    // A yes to the first is a yes to the first alone.
    scene.answer(&mut first, &[(one, true)]).await;
    assert_eq!(
        scene.posts().await,
        [json!({ "channel": "#staff", "text": "Hi" })]
    );
    assert_eq!(scene.pending().await, [two]);
    // The model hears each result under an id of its own.
    let prompt = scene.prompts().await.pop().unwrap();
    let messages = prompt["messages"].as_array().unwrap();
    let ids: Vec<&str> = messages
        .iter()
        .filter_map(|message| message["tool_call_id"].as_str())
        .collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((ids.len(), distinct.len()), (4, 4));
    assert!(ids.iter().all(|id| !id.starts_with("call_")));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_busy_model_is_asked_again_after_a_moment_and_else_names_the_wait() {
    let scene = Scene::new().await;
    let rows = [
        (
            429,
            Some(1),
            2,
            "the model is busy; please try again in a minute",
        ),
        (
            503,
            Some(900),
            1,
            "the model is busy; please try again in 15 minutes",
        ),
        (
            429,
            None,
            1,
            "the model is busy; please try again in a minute",
        ),
        (500, Some(1), 1, "the model cannot be reached at the moment"),
    ];
    let mut asked = 0;
    for (status, wait, requests, sentence) in rows {
        scene.switch("llm.retry_after", json!(wait)).await;
        let screen = scene.misled("llm.status", json!(status), POST).await;
        asked += requests;
        assert_eq!(scene.prompts().await.len(), asked, "{status} {wait:?}");
        let error = screen.error.clone().unwrap_or_default();
        assert!(error.contains(sentence), "{status} {wait:?}: {error}");
        scene.assert_nothing_done(&screen, sentence).await;
        assert!(scene.last_text().await.contains(sentence));
    }
    // It is as if nothing had been.
    assert_eq!(scene.say(POST).await.states(), ["approval-requested"]);
}
