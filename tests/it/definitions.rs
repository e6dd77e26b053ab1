//! A tool that changes between the question and the answer.

use serde_json::json;

use crate::harness::{Stack, fresh};

#[tokio::test]
async fn a_tool_that_changed_before_the_claim_is_asked_again_in_its_place() {
    for (school, changed) in [
        ("lakeside", "description"),
        ("hilltop", "schema"),
        ("lakeside", "annotations"),
    ] {
        let stack = Stack::alone().await;
        let admin = stack.person(&format!("{school}-admin")).await;
        let chat = admin.chat();
        let text = fresh("changed");
        let first = chat.ask_to_post(&text, "#general").await;
        let before = admin.approval(&first).await;
        stack
            .switch(json!({ "mcp.demo.changed_definition": changed }))
            .await;
        admin.approve(&first).await;
        let old = admin.until(&first, "superseded", 20).await;
        let second = old["superseded_by"]
            .as_str()
            .expect("a successor")
            .to_owned();
        let new = admin.approval(&second).await;
        assert_eq!(new["state"], "pending", "{changed}: {new}");
        assert_eq!(new["supersedes"], first);
        assert_ne!(new["definition_hash"], before["definition_hash"]);
        for same in [
            "arguments",
            "arguments_sha256",
            "tool_call_id",
            "turn_id",
            "requester",
        ] {
            assert_eq!(new[same], before[same], "{changed}: {same}");
        }
        let messages = chat.until("the new question", 20, |_| true).await;
        let call = &messages[1]["parts"][1];
        assert_eq!(call["state"], "approval-requested", "{call}");
        assert_eq!(call["approval"]["id"], second);
        assert_eq!(stack.posted(&text).await, 0, "{changed}");

        // A changed tool is withheld from new turns.
        let other = admin.chat();
        let told = other
            .say(&format!("post \"{}\" to #general", fresh("withheld")))
            .await;
        assert_eq!(told.approvals(), Vec::<String>::new(), "{changed}");
        assert!(told.text().contains("no tool"), "{}", told.text());

        // Back at what was reviewed, the successor's definition is not that one.
        stack.behave();
        admin
            .decide(&first, &json!({ "decision": "reject" }))
            .await
            .problem(409, "already_decided");
        admin.approve(&second).await;
        let end = crate::harness::eventually("an end of the successor", 20, async || {
            let row = admin.approval(&second).await;
            (!["approved", "executing"]
                .iter()
                .any(|state| row["state"] == *state))
            .then_some(row)
        })
        .await;
        // It differs from the live one again: asked a third time, under the reviewed definition.
        assert_eq!(end["state"], "superseded", "{changed}: {end}");
        let third = end["superseded_by"]
            .as_str()
            .expect("a successor")
            .to_owned();
        let row = admin.approval(&third).await;
        assert_eq!(row["definition_hash"], before["definition_hash"]);
        // Offered again by itself, since nothing that was reviewed has changed.
        let told = admin
            .chat()
            .say(&format!("post \"{}\" to #general", fresh("again")))
            .await;
        assert_eq!(told.approvals().len(), 1, "{changed}: {:?}", told.chunks);
        admin.approve(&third).await;
        admin.until(&third, "succeeded", 20).await;
        assert_eq!(stack.posted(&text).await, 1, "{changed}");
        chat.until_told(&format!("Posted “{text}”"), 20).await;
        let events = admin.events(&first).await;
        assert_eq!(events, ["requested", "decided", "superseded"]);
    }
}

#[tokio::test]
async fn a_successor_under_a_definition_that_nobody_reviewed_ends_as_blocked() {
    let stack = Stack::alone().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("unreviewed");
    let first = chat.ask_to_post(&text, "#general").await;
    stack
        .switch(json!({ "mcp.demo.changed_definition": true }))
        .await;
    admin.approve(&first).await;
    let old = admin.until(&first, "superseded", 20).await;
    let second = old["superseded_by"].as_str().expect("a successor");
    admin.approve(second).await;
    let row = admin.until(second, "blocked", 20).await;
    let note = row["outcome_note"].as_str().expect("a sentence");
    assert!(note.contains("administrator"), "says why: {note}");
    chat.until_told("blocked by policy", 20).await;
    assert_eq!(stack.posted(&text).await, 0);
    stack.behave();
    let told = admin
        .chat()
        .say(&format!("post \"{}\" to #general", fresh("back")))
        .await;
    assert_eq!(
        told.approvals().len(),
        1,
        "offered again: {:?}",
        told.chunks
    );
    assert_eq!(stack.posted(&text).await, 0);
}

#[tokio::test]
async fn a_tool_that_nobody_reviewed_is_not_offered() {
    let stack = Stack::alone().await;
    let admin = stack.person("lakeside-admin").await;
    stack
        .switch(json!({ "mcp.demo.changed_definition": "added" }))
        .await;
    let text = fresh("added");
    let chat = admin.chat();
    let id = chat.ask_to_post(&text, "#general").await;
    let prompts = stack.prompts(&text).await;
    let tools = prompts[0]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 3, "{tools:?}");
    admin.approve(&id).await;
    admin.until(&id, "succeeded", 20).await;
}
