//! Another school's ids do not exist; a colleague's are not yours.

mod doors;
mod ids;
mod routes;
mod work;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Aws, Chat, Person, Rows, Stack, fresh};
use routes::{Gets, Row, Things};

/// A person's own things: a question that waits, and one whose outcome is not known.
async fn things(stack: &Stack, owner: &Person<'_>) -> Things {
    let chat = owner.chat();
    let text = fresh("mine");
    stack
        .switch(json!({ "mcp.demo.drop_reply_after_commit": true }))
        .await;
    let lost = chat.ask_to_post(&fresh("lost"), "#general").await;
    owner.approve(&lost).await;
    owner.until(&lost, "unknown", 20).await;
    stack
        .switch(json!({ "mcp.demo.drop_reply_after_commit": null }))
        .await;
    chat.until("the turn is over", 20, |messages| messages.len() == 2)
        .await;
    let approval = chat.ask_to_post(&text, "#general").await;
    let records = owner
        .get(&format!("/v1/audit?approval={approval}"))
        .await
        .ok();
    let key = records["items"][0]["conversation_id"].as_str();
    let messages = chat.messages().await;
    Things {
        key: key.expect("a conversation").to_owned(),
        message: messages[3]["id"].as_str().expect("an id").to_owned(),
        chat: chat.id.clone(),
        approval,
        lost,
        text,
    }
}

/// What is the owner's in the tables.
async fn stored(aws: &Aws<'_>, things: &Things) -> Rows {
    let mut rows = aws
        .rows_with(&[&things.key, &things.approval, &things.lost])
        .await;
    // Refused answers are on record beside what they were about.
    rows.retain(|(_, pk, _), _| !pk.contains("#REF#"));
    rows
}

fn same(one: &Answer, other: &Answer) -> bool {
    let names = |answer: &Answer| -> BTreeSet<String> {
        let names = answer.headers.keys().map(ToString::to_string);
        names.collect()
    };
    one.status == other.status && one.text == other.text && names(one) == names(other)
}

async fn check(row: &Row, person: &Person<'_>, gets: Gets, things: &Things) {
    let answer = row.ask(person, things).await;
    let what = format!("{} {} for {}", row.route, row.path(things), person.name);
    match gets {
        Gets::Nothing => {
            let unknown = Things::unknown(fresh("chat"));
            let unknown = row.ask(person, &unknown).await;
            assert!(
                same(&answer, &unknown),
                "{what} is told apart:\n{answer:?}\n{unknown:?}"
            );
            assert!([204, 404].contains(&answer.status), "{what}: {answer:?}");
        }
        Gets::Refused(status, code) => _ = answer.clone().problem(status, code),
        Gets::Own(status) => assert_eq!(answer.status, status, "{what}: {}", answer.text),
    }
    for secret in [&things.text, &things.lost, &things.message, &things.key] {
        assert!(
            !answer.text.contains(secret),
            "{what} shows {secret}: {}",
            answer.text
        );
    }
}

/// Nobody, a stranger, and the platform's operator.
async fn check_outsiders(stack: &Stack, row: &Row, things: &Things) {
    let operator = stack
        .post("/_sandbox/token", &json!({ "as": "operator" }))
        .await;
    let operator = operator.text.trim().to_owned();
    let ask = async |token: Option<&str>| {
        let url = format!("{}{}", stack.base, row.path(things));
        let mut request = stack.http.request(row.method(), url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = row.body {
            request = request.json(&body(things));
        }
        Answer::of(request.send().await.expect("an answer")).await
    };
    ask(None).await.problem(401, "token_missing");
    ask(Some("a.b.c")).await.problem(401, "token_invalid");
    let answer = ask(Some(&operator)).await;
    if row.route == "GET /me" {
        assert_eq!(answer.ok()["tenant"], Value::Null);
    } else {
        answer.problem(403, "not_for_operators");
    }
}

#[tokio::test]
async fn every_route_shows_and_changes_things_of_their_own_school_and_person_alone() {
    let stack = Stack::alone().await;
    let document = stack.openapi().await;
    let table = routes::table();
    let mut tested: BTreeSet<String> = table.iter().map(|row| row.route.to_owned()).collect();
    tested.extend(routes::OPEN.map(ToOwned::to_owned));
    assert_eq!(
        tested,
        routes::documented(&document),
        "a new route needs a row in the table"
    );
    assert_eq!(
        routes::named(&document),
        routes::NAMED.map(ToOwned::to_owned).into(),
        "a new filter or body may name what is another's: it needs a row in the table"
    );
    let aws = stack.aws().await;
    for (own, other) in [("lakeside", "hilltop"), ("hilltop", "lakeside")] {
        let owner = stack.person(&format!("{own}-admin")).await;
        let foreign_admin = stack.person(&format!("{other}-admin")).await;
        let foreign_teacher = stack.person(&format!("{other}-teacher")).await;
        let deputy = stack.person(&format!("{own}-deputy")).await;
        let teacher = stack.person(&format!("{own}-teacher")).await;
        let things = things(&stack, &owner).await;
        let mut before = stored(&aws, &things).await;
        assert!(before.len() > 10, "{} rows", before.len());
        for row in &table {
            let others = row.others;
            for (person, gets) in [
                (&foreign_admin, others.foreign_admin),
                (&foreign_teacher, others.foreign_teacher),
                (&deputy, others.deputy),
                (&teacher, others.teacher),
            ] {
                check(row, person, gets, &things).await;
            }
            check_outsiders(&stack, row, &things).await;
            let after = stored(&aws, &things).await;
            assert_eq!(after, before, "{} changed something", row.route);
            let control = row.ask(&owner, &things).await;
            assert_eq!(control.status, row.owner, "{}: {control:?}", row.route);
            if row.route == "POST /approvals/{id}/decision" {
                owner.until(&things.approval, "succeeded", 20).await;
                let chat = Chat::new(&owner, things.chat.clone());
                chat.until_told(&things.text, 20).await;
            }
            before = stored(&aws, &things).await;
        }
        assert_eq!(stack.posted(&things.text).await, 1, "by its owner alone");
        for (approval, what) in [(&things.approval, "answer"), (&things.lost, "outcome")] {
            let refused = refusals(&owner, approval).await;
            let by: BTreeSet<&str> = refused
                .iter()
                .map(|record| record["actor"]["id"].as_str().expect("a person"))
                .collect();
            let colleagues = [&deputy, &teacher].map(|person| person.name.as_str());
            assert_eq!(by, colleagues.into(), "who answered what is not theirs");
            assert_eq!(refused.len(), 2, "each once: {refused:?}");
            for record in &refused {
                assert_eq!(record["detail"]["why"], "not_yours", "{record}");
                assert!(record["detail"][what].is_string(), "{record}");
            }
            let elsewhere = refusals(&foreign_admin, approval).await;
            assert!(elsewhere.is_empty(), "{elsewhere:?}");
        }
    }
}

/// Records of refused answers to this approval, as this administrator sees them.
async fn refusals(admin: &Person<'_>, approval: &str) -> Vec<Value> {
    let records = admin.get("/v1/audit?limit=100").await.ok();
    let records = records["items"].as_array().expect("records").iter();
    let fits = |record: &&Value| record["event"] == "refused" && record["approval_id"] == approval;
    records.filter(fits).cloned().collect()
}

#[tokio::test]
async fn lists_hold_nothing_of_another_school_or_person() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("list");
    let id = chat.ask_to_post(&text, "#general").await;
    let lists = [
        "/v1/approvals?limit=50",
        "/v1/approvals?state=pending",
        "/v1/conversations?limit=50",
    ];
    for path in lists {
        let mine = admin.get(path).await.ok().to_string();
        assert!(mine.contains(&chat.id), "{path}: {mine}");
        for other in ["hilltop-admin", "lakeside-deputy", "lakeside-teacher"] {
            let theirs = stack.person(other).await.get(path).await.ok().to_string();
            assert!(
                !theirs.contains(&chat.id) && !theirs.contains(&id),
                "{other} {path}"
            );
        }
    }
    let audit = admin.get("/v1/audit?limit=50").await.ok().to_string();
    assert!(audit.contains(&id), "{audit}");
    let theirs = stack
        .person("hilltop-admin")
        .await
        .get("/v1/audit?limit=50")
        .await
        .ok();
    assert!(!theirs.to_string().contains(&id));
    // A cursor is for the school that it was made for.
    admin.chat().ask_to_post(&fresh("second"), "#general").await;
    let page = admin.get("/v1/approvals?limit=1").await.ok();
    let next = page["next"].as_str().expect("a second page");
    let path = format!("/v1/approvals?limit=1&cursor={next}");
    assert_eq!(admin.get(&path).await.status, 200);
    let foreign = stack.person("hilltop-admin").await.get(&path).await;
    foreign.problem(400, "bad_request");
}

#[tokio::test]
async fn a_running_answer_is_followed_by_its_own_person_alone() {
    let stack = Stack::alone().await;
    stack.switch(json!({ "llm.delay_ms": 200 })).await;
    let teacher = stack.person("lakeside-teacher").await;
    let chat = teacher.chat();
    let mut response = teacher
        .request(Method::POST, "/v1/chat")
        .json(&chat.message("hello"))
        .send()
        .await
        .expect("sent");
    let first = response
        .chunk()
        .await
        .expect("bytes")
        .expect("a first chunk");
    let path = format!("/v1/chat/{}/stream", chat.id);
    for other in ["hilltop-teacher", "hilltop-admin", "lakeside-admin"] {
        let answer = stack.person(other).await.get(&path).await;
        assert_eq!((answer.status, answer.text.as_str()), (204, ""), "{other}");
    }
    let followed = crate::harness::Told::of(&teacher.get(&path).await);
    let start = String::from_utf8_lossy(&first).into_owned();
    assert!(start.contains(followed.message_id()), "{start}");
    assert!(
        followed.text().contains("scripted model"),
        "{:?}",
        followed.chunks
    );
    while response.chunk().await.expect("bytes").is_some() {}
}
