//! Who may do what.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Stack, fresh};

fn tools(prompt: &Value) -> BTreeSet<&str> {
    let tools = prompt["tools"].as_array().into_iter().flatten();
    tools
        .map(|tool| tool["function"]["name"].as_str().expect("a name"))
        .collect()
}

#[tokio::test]
async fn a_teacher_is_offered_no_tool_and_told_so_plainly() {
    let stack = Stack::shared().await;
    for person in ["lakeside-teacher", "hilltop-parent", "lakeside-accountant"] {
        let person = stack.person(person).await;
        let text = fresh("teacher");
        let told = person
            .chat()
            .say(&format!("post \"{text}\" to #general"))
            .await;
        assert!(told.approvals().is_empty(), "{:?}", told.chunks);
        assert!(
            told.text().contains("no tool that can post messages"),
            "{}",
            told.text()
        );
        let prompts = stack.prompts(&text).await;
        assert_eq!(prompts.len(), 1);
        assert_eq!(tools(&prompts[0]), BTreeSet::new());
        assert_eq!(stack.posted(&text).await, 0);
    }
}

#[tokio::test]
async fn a_deputy_reads_and_cannot_write() {
    let stack = Stack::shared().await;
    let deputy = stack.person("hilltop-deputy").await;
    let chat = deputy.chat();
    let mark = fresh("deputy");
    let told = chat.say("what channels are there").await;
    assert!(told.text().contains("#general"), "{}", told.text());
    let told = chat.say(&format!("post \"{mark}\" to #general")).await;
    assert!(told.approvals().is_empty(), "{:?}", told.chunks);
    assert!(
        told.text().contains("no tool that can post messages"),
        "{}",
        told.text()
    );
    let prompts = stack.prompts(&mark).await;
    let offered = tools(prompts.last().expect("a prompt"));
    assert_eq!(
        offered,
        BTreeSet::from(["demo__list_channels", "demo__list_messages"])
    );
    assert_eq!(stack.posted(&mark).await, 0);
}

#[tokio::test]
async fn a_person_is_what_their_row_says_and_not_what_their_token_asks_for() {
    let stack = Stack::at_any_time();
    for (name, role) in [
        ("lakeside-admin", "admin"),
        ("hilltop-deputy", "deputy"),
        ("hilltop-teacher2", "teacher"),
        ("lakeside-parent2", "parent"),
        ("hilltop-librarian", "librarian"),
    ] {
        let (school, _) = name.split_once('-').expect("a school");
        let me = stack.person(name).await.get("/v1/me").await.ok();
        assert_eq!(me["user_id"], name);
        assert_eq!(me["role"], role);
        assert_eq!(me["tenant"]["id"], school);
        let can = |what: &str| {
            me["capabilities"]
                .as_array()
                .is_some_and(|list| list.contains(&json!(what)))
        };
        assert!(can("chat"));
        assert_eq!(can("audit.read"), role == "admin", "{me}");
        assert_eq!(can("llm.health"), role == "admin", "{me}");
    }
}

#[tokio::test]
async fn what_is_an_administrators_is_refused_to_others() {
    let stack = Stack::shared().await;
    for name in ["lakeside-deputy", "lakeside-teacher", "lakeside-parent"] {
        let person = stack.person(name).await;
        person.get("/v1/audit").await.problem(403, "not_allowed");
        person
            .get("/v1/llm/health")
            .await
            .problem(403, "not_allowed");
    }
    let admin = stack.person("lakeside-admin").await;
    admin.get("/v1/audit").await.ok();
    let health = admin.get("/v1/llm/health").await.ok();
    assert_eq!(
        (&health["ok"], &health["model"]),
        (&json!(true), &json!("scripted"))
    );
}

#[tokio::test]
async fn the_platforms_operator_belongs_to_no_school() {
    let stack = Stack::at_any_time();
    let token = stack
        .post("/_sandbox/token", &json!({ "as": "operator" }))
        .await;
    assert_eq!(token.status, 200, "{}", token.text);
    let ask = async |path: &str| {
        let request = stack.http.get(format!("{}{path}", stack.base));
        let request = request.bearer_auth(token.text.trim());
        crate::harness::Answer::of(request.send().await.expect("an answer")).await
    };
    let me = ask("/v1/me").await.ok();
    assert_eq!(me["tenant"], Value::Null);
    for path in ["/v1/approvals", "/v1/conversations", "/v1/audit"] {
        ask(path).await.problem(403, "not_for_operators");
    }
}
