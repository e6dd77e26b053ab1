//! What the README says, where no other test does.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::{Stack, fresh};

#[tokio::test]
async fn the_audit_shows_when_it_was_tampered_with() {
    let stack = Stack::shared().await;
    let aws = stack.aws().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("tampered");
    let id = chat.ask_to_post(&text, "#general").await;
    admin.reject(&id, "no").await;
    chat.until_told("denied", 20).await;
    admin.audit(&id).await;
    let found = aws
        .dynamodb(
            "Scan",
            json!({
                "TableName": aws.audit_table,
                "FilterExpression": "contains(PK, :id)",
                "ExpressionAttributeValues": { ":id": { "S": id } },
            }),
        )
        .await;
    let rows = found["Items"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{rows:?}");
    let decided = rows
        .iter()
        .find(|row| row.to_string().contains("decided"))
        .expect("a record");
    let verify = async || {
        admin
            .get(&format!("/v1/audit/verify?approval={id}"))
            .await
            .ok()
    };
    // Somebody with the keys to the table makes the no a yes, then removes it.
    let changed = decided.to_string().replace("reject", "approve");
    assert_ne!(changed, decided.to_string());
    let changed: serde_json::Value = serde_json::from_str(&changed).expect("a row");
    aws.dynamodb(
        "PutItem",
        json!({ "TableName": aws.audit_table, "Item": changed }),
    )
    .await;
    let altered = verify().await;
    assert_eq!(
        (&altered["ok"], &altered["first_bad"]["seq"]),
        (&json!(false), &json!(2))
    );
    assert_eq!(altered["first_bad"]["problem"], "altered", "{altered}");
    let key = json!({ "PK": decided["PK"], "SK": decided["SK"] });
    aws.dynamodb(
        "DeleteItem",
        json!({ "TableName": aws.audit_table, "Key": key }),
    )
    .await;
    let cut = verify().await;
    assert_eq!(cut["ok"], false, "{cut}");
    aws.dynamodb(
        "PutItem",
        json!({ "TableName": aws.audit_table, "Item": decided }),
    )
    .await;
    assert_eq!(verify().await["ok"], true, "put back as it was");
}

#[tokio::test]
async fn the_printed_token_is_a_token_and_nothing_else() {
    let stack = Stack::at_any_time();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    let mut command = Command::new("python3");
    command.args([
        "infra/dev.py",
        "token",
        "--tenant",
        "lakeside",
        "--as",
        "admin",
    ]);
    let printed = command
        .args(["--port", stack.port()])
        .current_dir(root)
        .output()
        .expect("it");
    assert!(printed.status.success());
    let printed = String::from_utf8(printed.stdout).expect("text");
    let token = printed.trim_end();
    assert_eq!(token.split('.').count(), 3, "{printed}");
    assert!(!token.contains(char::is_whitespace), "{printed}");
    let request = stack
        .http
        .get(format!("{}/v1/me", stack.base))
        .bearer_auth(token);
    let me = crate::harness::Answer::of(request.send().await.expect("an answer"))
        .await
        .ok();
    assert_eq!(me["user_id"], "lakeside-admin");
}

#[tokio::test]
async fn one_address_serves_the_page_its_settings_and_the_interface() {
    let stack = Stack::at_any_time();
    for path in ["/", "/approvals"] {
        let page = stack.get(path).await;
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").starts_with("text/html"));
        assert!(
            page.header("content-security-policy")
                .contains("default-src 'self'")
        );
        assert!(page.text.contains("<title>Toshi"), "{}", page.text);
    }
    let config = stack.get("/config.json").await.ok();
    assert_eq!(config["model"], "scripted", "the page can say who answers");
    assert_eq!(config["issuer"], format!("{}/_sandbox/oidc", stack.base));
    assert_eq!(
        stack.get("/v1/health").await.ok(),
        json!({ "status": "ok" })
    );
    let document = stack.openapi().await;
    assert!(
        document["openapi"]
            .as_str()
            .is_some_and(|version| version.starts_with("3.1"))
    );
}

#[tokio::test]
async fn an_approval_names_everything_that_the_card_shows() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("card");
    let told = chat.say(&format!("post \"{text}\" to #general")).await;
    let asked = told
        .of_kind("tool-approval-request")
        .next()
        .expect("a question");
    let row = admin
        .approval(asked["approvalId"].as_str().expect("an id"))
        .await;
    let shown = &asked["approvalDescriptor"];
    for (name, value) in [
        ("workspace", &row["connection"]["title"]),
        ("account", &row["connection"]["account"]),
        ("tool", &row["tool"]),
        ("risk", &row["risk"]),
        ("decide_by", &row["decide_by"]),
        ("effect", &row["effect"]),
        ("intent", &row["intent"]),
    ] {
        assert!(value.is_string(), "{name}: {row}");
        assert_eq!(&shown[name], value, "{name}");
    }
    assert!(
        row["arguments"].get("_intent").is_none(),
        "the agent's words are no argument"
    );
    assert_eq!(asked["reason"], row["intent"]);
}
