//! Another school's ids do not exist; a colleague's are not yours.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Person, Stack, fresh};

/// A request that names something of somebody.
struct Named {
    /// As the interface's document spells it.
    route: &'static str,
    method: Method,
    path: String,
    body: Option<Value>,
    /// For its owner, for another school, and for a colleague.
    owner: u16,
    foreign: u16,
    colleague: u16,
}

fn requests(approval: &str, chat: &str) -> Vec<Named> {
    let named = |route, method, path: String, owner, foreign, colleague| Named {
        route,
        method,
        path,
        body: None,
        owner,
        foreign,
        colleague,
    };
    let get = Method::GET;
    vec![
        named(
            "GET /approvals/{id}",
            get.clone(),
            format!("/v1/approvals/{approval}"),
            200,
            404,
            403,
        ),
        named(
            "GET /audit?approval",
            get.clone(),
            format!("/v1/audit?approval={approval}"),
            200,
            404,
            403,
        ),
        named(
            "GET /audit/verify?approval",
            get.clone(),
            format!("/v1/audit/verify?approval={approval}"),
            200,
            404,
            403,
        ),
        named(
            "GET /conversations/{id}/messages",
            get.clone(),
            format!("/v1/conversations/{chat}/messages"),
            200,
            404,
            404,
        ),
        // Nothing runs at the moment, which is what others are always told.
        named(
            "GET /chat/{id}/stream",
            get,
            format!("/v1/chat/{chat}/stream"),
            204,
            204,
            204,
        ),
        Named {
            body: Some(json!({ "outcome": "done", "reason": "I looked" })),
            ..named(
                "POST /approvals/{id}/resolve",
                Method::POST,
                format!("/v1/approvals/{approval}/resolve"),
                409,
                404,
                403,
            )
        },
        Named {
            body: Some(json!({ "decision": "approve" })),
            ..named(
                "POST /approvals/{id}/decision",
                Method::POST,
                format!("/v1/approvals/{approval}/decision"),
                200,
                404,
                403,
            )
        },
        named(
            "DELETE /conversations/{id}",
            Method::DELETE,
            format!("/v1/conversations/{chat}"),
            204,
            404,
            404,
        ),
    ]
}

/// Every route of the document that takes an id, in its path or as a filter.
fn routes(document: &Value) -> BTreeSet<String> {
    let mut routes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, described) in methods.as_object().expect("methods") {
            let method = method.to_uppercase();
            if path.contains('{') {
                routes.insert(format!("{method} {path}"));
            }
            for parameter in described["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().expect("a name");
                if name == "approval" {
                    routes.insert(format!("{method} {path}?{name}"));
                }
            }
        }
    }
    routes
}

async fn refused(person: &Person<'_>, named: &Named, status: u16) {
    let answer = person
        .send(named.method.clone(), &named.path, named.body.as_ref())
        .await;
    match status {
        204 => assert_eq!(
            (answer.status, answer.text.as_str()),
            (204, ""),
            "{}",
            named.route
        ),
        403 => _ = answer.problem(403, "not_yours"),
        404 => {
            assert_eq!(answer.status, 404, "{}: {}", named.route, answer.text);
            let code = answer.body["code"].as_str().expect("a code").to_owned();
            assert!(["not_found", "unknown_conversation"].contains(&code.as_str()));
            answer.problem(404, &code);
        }
        status => panic!("{status} is no refusal"),
    }
}

#[tokio::test]
async fn every_route_with_an_id_knows_it_only_for_its_own_school_and_person() {
    let stack = Stack::shared().await;
    let document = stack.openapi().await;
    let tested: BTreeSet<String> = requests("a", "b")
        .iter()
        .map(|named| named.route.to_owned())
        .collect();
    assert_eq!(tested, routes(&document), "a new route needs a line here");
    for (owner, other) in [("lakeside", "hilltop"), ("hilltop", "lakeside")] {
        let admin = stack.person(&format!("{owner}-admin")).await;
        let foreigners = [
            stack.person(&format!("{other}-admin")).await,
            stack.person(&format!("{other}-deputy")).await,
        ];
        let colleagues = [
            stack.person(&format!("{owner}-deputy")).await,
            stack.person(&format!("{owner}-teacher")).await,
        ];
        let chat = admin.chat();
        let text = fresh("mine");
        let id = chat.ask_to_post(&text, "#general").await;
        for named in requests(&id, &chat.id) {
            for person in &foreigners {
                refused(person, &named, named.foreign).await;
            }
            for person in &colleagues {
                refused(person, &named, named.colleague).await;
            }
            if named.route.starts_with("POST") {
                let row = admin.approval(&id).await;
                assert_eq!(row["state"], "pending", "{} changed something", named.route);
            }
            if named.route.starts_with("DELETE") {
                admin.until(&id, "succeeded", 20).await;
                chat.until_told(&text, 20).await;
            }
            let control = admin
                .send(named.method.clone(), &named.path, named.body.as_ref())
                .await;
            assert_eq!(
                control.status, named.owner,
                "{}: {}",
                named.route, control.text
            );
        }
        assert_eq!(stack.posted(&text).await, 1, "by its owner alone");
    }
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
