//! Conversations that are longer than a prompt.

use serde_json::{Value, json};
use toshi_core::{State, SummaryRow, TurnEnd, TurnState};

use crate::scene::{Scene, Wanted, continued, fresh_id, message};
use crate::script::{Says, Script};
use crate::strict::Screen;

const POST: (&str, &str) = (
    "demo__post_message",
    r##"{"channel":"#general","text":"Hi"}"##,
);
const READ: (&str, &str) = ("demo__list_messages", r##"{"channel":"#general"}"##);

/// A message of which three and a half fill the window.
fn long(text: &str) -> String {
    format!("{text} {}", "x".repeat(28 * 1024))
}

async fn scene_of(answers: Vec<Says>) -> (Scene, Script) {
    let script = Script::of(answers).await;
    let model = Some(script.url.clone());
    let scene = Scene::with(Wanted {
        model,
        ..Wanted::default()
    })
    .await;
    (scene, script)
}

impl Scene {
    async fn summary(&self) -> Option<SummaryRow> {
        let history = self.school().history(&self.conversation()).await.unwrap();
        history.summary
    }
}

fn is_summary(asked: &Value) -> bool {
    let system = asked["messages"][0]["content"].as_str().unwrap();
    system.starts_with("You keep the running record")
}

/// The record in a prompt, and the messages of people after it, as far as their first word.
fn read(asked: &Value) -> (Option<Value>, Vec<String>) {
    let messages = asked["messages"].as_array().unwrap();
    let users: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    let record = users.first().and_then(|text| {
        let (start, record) = text.split_once('\n')?;
        start
            .starts_with("What follows is the platform's record")
            .then(|| record.to_owned())
    });
    let said = users.iter().skip(usize::from(record.is_some()));
    let first = |text: &&str| text.split(' ').next().unwrap().to_owned();
    let record = record.map(|record| serde_json::from_str(&record).unwrap());
    (record, said.map(first).collect())
}

#[tokio::test]
async fn what_no_longer_fits_is_summarised_once_and_its_names_are_kept_exactly() {
    let (scene, script) = scene_of(vec![
        Says::text("One."),
        Says::calls(&[READ]),
        Says::text("Two."),
        Says::text("Three."),
        Says::text("They spoke of an invoice."),
        Says::text("Four."),
        Says::text("Five."),
    ])
    .await;
    scene
        .say(&long("First INV-2026/017 of EUR 1,250.00, for “Ann Lee”"))
        .await;
    scene.say(&long("Second")).await;
    scene.say(&long("Third")).await;
    assert_eq!(scene.summary().await, None);
    let screen = scene.say(&long("Fourth")).await;
    assert_eq!(screen.text(), "Four.", "the person sees nothing of it");
    screen.assert_is_stored_as(&scene.last_answer().await);

    let asked = script.asked();
    let summaries: Vec<bool> = asked.iter().map(is_summary).collect();
    assert_eq!(summaries, [false, false, false, false, true, false]);
    assert!(asked[4].get("tools").is_none());
    let input = asked[4]["messages"][1]["content"].as_str().unwrap();
    let input: Value = serde_json::from_str(input).unwrap();
    let texts: Vec<&str> = input["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["person"].as_str())
        .collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].starts_with("First INV") && texts[1].starts_with("Second"));
    assert!(texts[0].len() < 3_000);

    let (record, said) = read(&asked[5]);
    let record = record.unwrap();
    assert_eq!(
        record["summary_by_the_assistant"],
        "They spoke of an invoice."
    );
    let exact = record["exact_words"]["of_the_person_and_the_assistant"].clone();
    assert_eq!(
        exact,
        json!(["INV-2026/017", "EUR 1,250.00", "Ann Lee", "#general"])
    );
    assert!(
        !record["exact_words"]["of_tools"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert_eq!(said, ["Third", "Fourth"]);
    let kept = scene.summary().await.unwrap();
    assert_eq!(
        (kept.upto, kept.text.as_str()),
        (4, "They spoke of an invoice.")
    );

    scene.say("And now?").await;
    let asked = script.asked();
    assert_eq!(asked.len(), 7, "no other summary");
    let (record, said) = read(&asked[6]);
    assert!(record.is_some());
    assert_eq!(said, ["Third", "Fourth", "And"]);
    // The page shows all of it as ever.
    assert_eq!(scene.messages().await.len(), 10);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn without_a_summary_the_turn_goes_on_with_what_fits() {
    let mut filtered = Says::text("");
    filtered.finish = "content_filter";
    let (scene, script) = scene_of(vec![
        Says::text("One."),
        Says::text("Two."),
        Says::text("Three."),
        Says::calls(&[POST]),
        Says::text("Four."),
        filtered,
        Says::text("Five."),
        Says::text("They spoke."),
        Says::text("Six."),
    ])
    .await;
    for text in ["First", "Second", "Third"] {
        scene.say(&long(text)).await;
    }
    // A call instead of a summary is not made, and is nobody's to answer.
    assert_eq!(scene.say(&long("Fourth")).await.text(), "Four.");
    assert_eq!(scene.pending().await, []);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    assert_eq!(scene.say("Fifth").await.text(), "Five.");
    assert_eq!(scene.summary().await, None);
    let asked = script.asked();
    assert_eq!(
        read(&asked[4]),
        (
            None,
            vec!["Second".to_owned(), "Third".to_owned(), "Fourth".to_owned()]
        )
    );
    // Each turn tries again.
    scene.say("Sixth").await;
    assert_eq!(scene.summary().await.unwrap().text, "They spoke.");
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_model_that_fails_while_it_summarises_does_not_fail_the_turn() {
    let scene = Scene::new().await;
    for text in ["hello First", "hello Second", "hello Third"] {
        scene.say(&long(text)).await;
    }
    for (switch, value) in [
        ("llm.junk", json!("bad_utf8")),
        ("llm.error_midstream", json!(true)),
        ("llm.status", json!(500)),
    ] {
        scene.switch(switch, value).await;
        let screen = scene.say(&long("hello again")).await;
        scene.switch(switch, Value::Null).await;
        // The same fault met the turn itself, and it says so.
        assert!(screen.error.is_some());
        assert_eq!(scene.summary().await, None);
    }
    // The scripted model keeps the record itself.
    scene.say(&long("hello Fourth")).await;
    let kept = scene.summary().await.unwrap();
    assert!(
        kept.text.starts_with("The person said: hello First"),
        "{}",
        kept.text
    );
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_question_and_an_unknown_outcome_stay_in_the_prompt_and_no_continuation_waits() {
    let other = (
        "demo__post_message",
        r##"{"channel":"#staff","text":"Ho"}"##,
    );
    let (scene, script) = scene_of(vec![
        Says::calls(&[POST]),
        Says::text("I do not know."),
        Says::calls(&[other]),
        Says::text("Three."),
        Says::text("Four."),
        Says::text("Five."),
        Says::text("They spoke."),
        Says::text("Six."),
        Says::text("Rejected, then."),
        Says::text("Seven."),
    ])
    .await;
    scene
        .switch("mcp.demo.drop_reply_after_commit", json!(true))
        .await;
    let mut screen = scene.say("Post it").await;
    let lost = scene.one_pending().await;
    scene.answer(&mut screen, &[(lost, true)]).await;
    assert_eq!(scene.state(lost).await, State::Unknown);
    scene
        .switch("mcp.demo.drop_reply_after_commit", Value::Null)
        .await;
    scene.say("Post another").await;
    let waits = scene.one_pending().await;
    for text in ["Third", "Fourth", "Fifth", "Sixth"] {
        scene.say(&long(text)).await;
    }
    let calls = |asked: &Value| read(asked).0.unwrap()["calls"].clone();
    let told = calls(script.asked().last().unwrap());
    let state = |n: usize| told[n]["state"].as_str().unwrap();
    assert_eq!(told.as_array().unwrap().len(), 2);
    assert!(state(0).starts_with("outcome unknown"), "{told}");
    assert!(
        state(1).starts_with(&format!("pending {waits}, not executed")),
        "{told}"
    );
    assert_eq!(
        told[1]["arguments"],
        r##"{"channel":"#staff","text":"Ho"}"##
    );

    // The answer comes after all of that. Its continuation asks the model once, and not for a
    // summary.
    let before = script.asked().len();
    scene.reject(waits, "Not now").await;
    scene.work().await;
    let asked = script.asked();
    assert_eq!(asked.len(), before + 1);
    assert!(!is_summary(&asked[before]));
    let told: Vec<String> = script.told();
    assert!(
        told.iter()
            .any(|told| told.starts_with("denied by a person")),
        "{told:?}"
    );
    assert!(scene.last_text().await.starts_with("Rejected, then."));

    // What a person finds out about the other is told, too.
    scene.resolve(lost, true).await;
    scene.say("And?").await;
    let told = calls(script.asked().last().unwrap());
    assert_eq!(told.as_array().unwrap().len(), 1);
    assert!(
        told[0]["state"]
            .as_str()
            .unwrap()
            .starts_with("executed: the outcome had been unknown")
    );
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_no_longer_in_the_summary() {
    let (scene, script) = scene_of(vec![
        Says::text("One."),
        Says::text("Two."),
        Says::text("Three."),
        Says::text("They spoke of SECRET-1."),
        Says::text("Four."),
        Says::text("Anew."),
    ])
    .await;
    scene
        .post(message("m-1", &long("First SECRET-1")))
        .await
        .unwrap();
    for text in ["Second", "Third", "Fourth"] {
        scene.say(&long(text)).await;
    }
    assert!(scene.summary().await.is_some());
    let again = scene.post(message("m-1", "Begin again")).await.unwrap();
    assert_eq!(Screen::of(&again).text(), "Anew.");
    let asked = script.asked();
    assert_eq!(
        read(asked.last().unwrap()),
        (None, vec!["Begin".to_owned()])
    );
    assert!(!asked.last().unwrap().to_string().contains("SECRET-1"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_turn_that_gathers_more_than_a_model_can_hold_ends_with_a_sentence() {
    let reads: Vec<String> = (1..=8)
        .map(|n| format!(r##"{{"channel":"#general","limit":{n}}}"##))
        .collect();
    let reads: Vec<(&'static str, &str)> = reads
        .iter()
        .map(|arguments| ("demo__list_messages", arguments.as_str()))
        .collect();
    let more: Vec<String> = (11..=18)
        .map(|n| format!(r##"{{"channel":"#general","limit":{n}}}"##))
        .collect();
    let more: Vec<(&'static str, &str)> = more
        .iter()
        .map(|arguments| ("demo__list_messages", arguments.as_str()))
        .collect();
    let (scene, script) = scene_of(vec![Says::calls(&reads), Says::calls(&more)]).await;
    scene
        .switch("mcp.demo.oversized_result", json!(100_000))
        .await;
    let screen = scene.say("Read it all").await;
    assert!(
        screen
            .text()
            .starts_with("I stop here: what this request gathered is more than")
    );
    assert_eq!(script.asked().len(), 2);
    screen.assert_is_stored_as(&scene.last_answer().await);
    let TurnState::Done { end } = scene.turns().await.remove(0).state else {
        panic!("not done");
    };
    assert!(matches!(end, TurnEnd::Limit { .. }));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn an_answer_on_a_card_in_a_long_conversation_is_not_kept_waiting() {
    let (scene, script) = scene_of(vec![
        Says::text("One."),
        Says::text("Two."),
        Says::calls(&[POST]),
        Says::text("Posted."),
        Says::text("They spoke."),
        Says::text("Four."),
    ])
    .await;
    for text in ["First", "Second"] {
        scene.say(&long(text)).await;
    }
    let mut screen = scene.say(&long("Third")).await;
    let id = scene.one_pending().await;
    screen.answer(&id.to_string(), true, None);
    scene.post(continued(&screen)).await.unwrap();
    assert!(script.asked().iter().all(|asked| !is_summary(asked)));
    scene
        .post(message(&fresh_id(), &long("Fourth")))
        .await
        .unwrap();
    assert_eq!(
        script
            .asked()
            .iter()
            .filter(|asked| is_summary(asked))
            .count(),
        1
    );
    scene.assert_at_rest().await;
}
