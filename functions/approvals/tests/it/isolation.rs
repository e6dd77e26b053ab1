use serde_json::{Value, json};
use toshi_core::State;

use crate::desk::{Desk, decision_path, resolve_path, show_path};

#[tokio::test]
async fn another_schools_approval_does_not_exist_on_any_route() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let id = asked.approval.approval_id;
    let decide = json!({ "decision": "approve" });
    let resolve = json!({ "outcome": "done", "reason": "Seen there" });
    for path in [
        show_path(&asked),
        format!("/audit?approval={id}"),
        format!("/audit/verify?approval={id}"),
    ] {
        desk.get("eve", &path).await.problem(404, "not_found");
        desk.get("ann", &path).await.ok();
    }
    desk.post("eve", &resolve_path(&asked), &resolve)
        .await
        .problem(404, "not_found");
    desk.post("eve", &decision_path(&asked), &decide)
        .await
        .problem(404, "not_found");
    assert_eq!(desk.stage.approval(&asked).await.state, State::Pending);
    desk.post("ann", &decision_path(&asked), &decide).await.ok();
}

/// Every byte but letters and digits, as a client escapes it.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[tokio::test]
async fn what_only_looks_like_an_id_is_unknown_to_everybody() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let id = asked.approval.approval_id.to_string();
    let decide = json!({ "decision": "approve" });
    let resolve = json!({ "outcome": "done", "reason": "Seen there" });
    let key = format!("{}#AP#{id}", asked.approval.conversation);
    let forms = [
        "#",
        "{}#",
        "#{}",
        "AP#{}",
        "APID#{}",
        "T#lakeside#{}",
        "T#lakeside",
        "{} ",
        " {}",
        "{}\0",
        "{}\n",
        "{}\r\nx: y",
        "\t{}",
        "../{}",
        "{}/../{}",
        "./{}",
        "{}/",
        "{}/decision",
        "{}\\",
        "{}?a=b",
        "?{}",
        "{}%00",
        "{}%2F",
        "%{}",
        "{}&approval={}",
        "{};{}",
        "'{}'",
        "{}\u{200B}",
        "{}\u{0301}",
        "\u{FEFF}{}",
        "*",
        "0",
        "null",
        "{}{}",
    ];
    let mut odd: Vec<String> = forms.map(|form| form.replace("{}", &id)).into();
    odd.extend([
        key,
        id.to_lowercase(),
        id.replace('0', "O"),
        id.replace('0', "\u{FF10}"),
        id.repeat(300),
        "8".to_owned() + &id[1..],
    ]);
    for odd in odd {
        let odd = escaped(&odd);
        for user in ["ann", "eve"] {
            for path in [
                format!("/approvals/{odd}"),
                format!("/audit?approval={odd}"),
                format!("/audit/verify?approval={odd}"),
            ] {
                desk.get(user, &path).await.problem(404, "not_found");
            }
            let path = format!("/approvals/{odd}/decision");
            desk.post(user, &path, &decide)
                .await
                .problem(404, "not_found");
            let path = format!("/approvals/{odd}/resolve");
            desk.post(user, &path, &resolve)
                .await
                .problem(404, "not_found");
        }
    }
    assert_eq!(desk.stage.approval(&asked).await, asked.approval);
    assert!(desk.refusals(&asked).await.is_empty());
}

#[tokio::test]
async fn lists_hold_nothing_of_another_school() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    desk.post(
        "tom",
        &decision_path(&asked),
        &json!({ "decision": "reject" }),
    )
    .await
    .problem(403, "not_yours");
    let count = |body: Value| body["items"].as_array().unwrap().len();
    for path in ["/approvals", "/approvals?state=pending&mine=true", "/audit"] {
        assert_eq!(count(desk.get("eve", path).await.ok()), 0, "{path}");
        assert!(count(desk.get("ann", path).await.ok()) > 0, "{path}");
    }
    let checked = |body: Value| body["checked"].as_u64().unwrap();
    assert_eq!(checked(desk.get("eve", "/audit/verify").await.ok()), 0);
    assert_eq!(checked(desk.get("ann", "/audit/verify").await.ok()), 1);
}

#[tokio::test]
async fn a_cursor_of_another_school_is_refused() {
    let desk = Desk::open().await;
    for _ in 0..2 {
        desk.ask("ann").await;
    }
    let page = desk.get("ann", "/approvals?limit=1").await.ok();
    let next = page["next"].as_str().unwrap();
    let path = format!("/approvals?limit=1&cursor={next}");
    desk.get("ann", &path).await.ok();
    desk.get("eve", &path).await.problem(400, "bad_request");
}

#[tokio::test]
async fn a_teacher_sees_their_own_and_not_a_colleagues() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    desk.get("tom", &show_path(&asked))
        .await
        .problem(403, "not_yours");
    let id = asked.approval.approval_id;
    for path in [
        format!("/audit?approval={id}"),
        format!("/audit/verify?approval={id}"),
    ] {
        desk.get("tom", &path).await.problem(403, "not_yours");
    }
    for path in ["/audit", "/audit/verify"] {
        desk.get("tom", path).await.problem(403, "not_allowed");
    }
    // An admin sees it, and may not answer it.
    let card = desk.get("zoe", &show_path(&asked)).await.ok();
    assert_eq!(card["can_decide"], false);
}

#[tokio::test]
async fn nobody_comes_in_without_a_token() {
    let desk = Desk::open().await;
    for path in ["/approvals", "/approvals/x", "/audit", "/audit/verify"] {
        desk.send("GET", None, path, None, "")
            .await
            .problem(401, "token_missing");
    }
    for path in ["/approvals/x/decision", "/approvals/x/resolve"] {
        desk.send("POST", None, path, Some("application/json"), "{}")
            .await
            .problem(401, "token_missing");
    }
    assert!(desk.hilltop != desk.lakeside);
}
