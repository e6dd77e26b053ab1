use serde_json::{Value, json};
use toshi_test_support::Question;

use crate::desk::{Desk, decision_path};

fn ids(body: &Value) -> Vec<String> {
    let items = body["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["approval_id"].as_str().unwrap().to_owned())
        .collect()
}

/// Follows `next` to the end.
async fn walk(desk: &Desk, user: &str, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    for _ in 0..100 {
        let page = desk.get(user, &format!("{path}{cursor}")).await.ok();
        found.extend(ids(&page));
        match page["next"].as_str() {
            None => return found,
            Some(next) => cursor = format!("&cursor={next}"),
        }
    }
    panic!("the list has no end");
}

#[tokio::test]
async fn what_waits_for_a_person_is_listed_by_its_limit_and_leaves_when_answered() {
    let desk = Desk::open().await;
    let mut asked = Vec::new();
    for minutes in [30, 10, 20] {
        let question = Question {
            conversation: format!("chat-{minutes:04}"),
            decide_within_ms: minutes * 60_000,
            ..Question::of("ann")
        };
        asked.push(desk.stage.ask(&desk.lakeside, &question).await);
    }
    let id = |n: usize| asked[n].approval.approval_id.to_string();
    let mine = "/approvals?state=pending&mine=true&limit=2";
    assert_eq!(walk(&desk, "ann", mine).await, [id(1), id(2), id(0)]);
    let reject = json!({ "decision": "reject" });
    desk.post("ann", &decision_path(&asked[1]), &reject)
        .await
        .ok();
    assert_eq!(walk(&desk, "ann", mine).await, [id(2), id(0)]);
    assert!(walk(&desk, "zoe", mine).await.is_empty());
}

#[tokio::test]
async fn an_admin_lists_the_school_and_others_list_their_own() {
    let desk = Desk::open().await;
    let mut all = Vec::new();
    for n in 0..5 {
        let user = if n % 2 == 0 { "ann" } else { "tom" };
        let question = Question {
            conversation: format!("chat-{n:04}"),
            ..Question::of(user)
        };
        let asked = desk.stage.ask(&desk.lakeside, &question).await;
        all.push((user, asked.approval.approval_id.to_string()));
    }
    let newest_first = |wanted: &str| -> Vec<String> {
        let mut ids: Vec<String> = all
            .iter()
            .filter(|(user, _)| wanted.is_empty() || *user == wanted)
            .map(|(_, id)| id.clone())
            .collect();
        ids.sort();
        ids.reverse();
        ids
    };
    for limit in [1, 2, 5, 50] {
        let path = format!("/approvals?limit={limit}");
        assert_eq!(walk(&desk, "zoe", &path).await, newest_first(""), "{limit}");
        assert_eq!(
            walk(&desk, "tom", &path).await,
            newest_first("tom"),
            "{limit}"
        );
        let mine = format!("/approvals?mine=true&limit={limit}");
        assert_eq!(
            walk(&desk, "ann", &mine).await,
            newest_first("ann"),
            "{limit}"
        );
        let pending = format!("/approvals?state=pending&limit={limit}");
        assert_eq!(
            walk(&desk, "zoe", &pending).await,
            newest_first(""),
            "{limit}"
        );
        let none = format!("/approvals?state=unknown&limit={limit}");
        assert!(walk(&desk, "zoe", &none).await.is_empty());
    }
}
