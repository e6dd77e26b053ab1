//! Who is suspended, gone, or of a school that is paused.

use serde_json::{Value, json};

use crate::harness::{Answer, Aws, Own, Person, Stack, fresh};

use super::routes::{self, Things};

/// On every route that needs a token.
async fn refused(person: &Person<'_>, things: &Things, status: u16, code: &str) {
    for row in routes::table() {
        let answer = row.ask(person, things).await;
        assert_eq!(
            answer.status, status,
            "{} for {}: {}",
            row.route, person.name, answer.text
        );
        answer.problem(status, code);
    }
}

async fn set(aws: &Aws<'_>, pk: &str, sk: &str, name: &str, value: Value) {
    let mut row = aws.row(pk, sk).await;
    assert!(!row[name].is_null(), "{row}");
    row[name] = value;
    aws.put_row(&row).await;
}

async fn me(person: &Person<'_>) -> Answer {
    person.get("/v1/me").await
}

#[tokio::test]
async fn who_is_suspended_gone_or_of_a_paused_school_is_refused_on_every_route() {
    let own = Own::start(&[]).await;
    let stack: Stack = own.stack();
    let aws = stack.aws().await;
    // A paused school, before any process has looked at it: a school's row is believed for minutes.
    set(
        &aws,
        "PLATFORM",
        "TENANT#hilltop",
        "active",
        json!({ "BOOL": false }),
    )
    .await;
    let hilltop = stack.person("hilltop-admin").await;
    let nothing = Things::unknown(fresh("chat"));
    refused(&hilltop, &nothing, 403, "tenant_inactive").await;

    let admin = stack.person("lakeside-admin").await;
    let teacher = stack.person("lakeside-teacher").await;
    let chat = admin.chat();
    let text = fresh("kept");
    let approval = chat.ask_to_post(&text, "#general").await;
    let things = Things {
        approval: approval.clone(),
        chat: chat.id.clone(),
        ..Things::unknown(String::new())
    };
    let row = aws.row("T#lakeside", "USER#lakeside-admin").await;
    let before = aws.rows_with(&[&approval]).await;
    me(&admin).await.ok();

    // Suspended: at once, since the row is read on every request. Then there again as before.
    let active = row["status"].clone();
    assert_eq!(active, json!({ "S": "active" }), "{row}");
    let suspended = json!({ "S": "inactive" });
    set(
        &aws,
        "T#lakeside",
        "USER#lakeside-admin",
        "status",
        suspended,
    )
    .await;
    refused(&admin, &things, 403, "person_inactive").await;
    me(&teacher).await.ok();
    aws.put_row(&row).await;
    me(&admin).await.ok();

    // Gone.
    aws.delete_row("T#lakeside", "USER#lakeside-admin").await;
    refused(&admin, &things, 401, "unknown_person").await;
    // With the platform's role in a school's row.
    let mut operator = row.clone();
    operator["role"] = json!({ "S": "operator" });
    aws.put_row(&operator).await;
    refused(&admin, &things, 401, "unknown_person").await;
    // With the row of another.
    let mut other = row.clone();
    other["user"] = json!({ "S": "lakeside-teacher" });
    aws.put_row(&other).await;
    refused(&admin, &things, 401, "unknown_person").await;
    // Who is not an administrator any more is refused what is an administrator's.
    let mut demoted = row.clone();
    demoted["role"] = json!({ "S": "teacher" });
    aws.put_row(&demoted).await;
    admin.get("/v1/audit").await.problem(403, "not_allowed");
    aws.put_row(&row).await;

    assert_eq!(
        aws.rows_with(&[&approval]).await,
        before,
        "nothing has moved"
    );
    assert_eq!(stack.posted(&text).await, 0);
    // A person whom no school knows.
    aws.delete_row("T#lakeside", "USER#lakeside-parent2").await;
    let gone = stack.person("lakeside-parent2").await;
    refused(&gone, &nothing, 401, "unknown_person").await;
    // The owner was only away.
    admin.approve(&approval).await;
    admin.until(&approval, "succeeded", 20).await;
    assert_eq!(stack.posted(&text).await, 1);
}
