//! A long result is read on by those who may see it, in its own conversation, and by nobody else.

use toshi_core::{
    BlockReason, CallId, ClientId, ConversationId, RESULT_CHUNK, RESULT_MAX, Role, State,
    part_count,
};
use toshi_store::{OpenError, PartError, ResultOrigin, ResultPart, mint};

use crate::scene::{Scene, T0, ann, catalogue, clock, conversation, succeeded};

/// Text of which each part begins with its number.
fn numbered(parts: usize) -> String {
    let part = |n: usize| format!("{n:07} ").repeat(RESULT_MAX / 8);
    (1..=parts).map(part).collect()
}

fn origin() -> ResultOrigin {
    ResultOrigin {
        connector: "demo".to_owned(),
        connection: "con-1".parse().unwrap(),
        tool: "list_messages".to_owned(),
        approval: None,
    }
}

impl Scene {
    async fn kept(&self, text: &str) -> (CallId, u32) {
        let call = mint(T0);
        let school = self.school();
        let count = school
            .keep_result(&conversation(), call, &origin(), text)
            .await;
        (call, count)
    }

    async fn part(&self, call: CallId, part: u32) -> Result<ResultPart, PartError> {
        let person = (&ann(), Role::Admin);
        let school = self.school();
        school
            .open_result(&catalogue(), person, &conversation(), call, part)
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_part_is_read_from_its_place_and_there_is_none_after_the_last() {
    let scene = Scene::new().await;
    scene.connected().await;
    // Two chunks, the second of them not full.
    let text = numbered(RESULT_CHUNK / RESULT_MAX + 2) + "the end";
    let (call, count) = scene.kept(&text).await;
    assert_eq!(count, 2);
    let parts = part_count(text.len() as u64, count);
    assert_eq!(parts, 19);
    for n in 1..=parts {
        let part = scene.part(call, n).await.unwrap();
        assert_eq!((part.origin, part.parts), (origin(), parts));
        let begins = if n == parts {
            "the end".to_owned()
        } else {
            format!("{n:07} ")
        };
        assert!(part.text.starts_with(&begins), "{n}: {:.20}", part.text);
        assert!(part.text.len() <= RESULT_MAX);
    }
    for n in [0, parts + 1, 64, 65, u32::MAX] {
        let none = scene.part(call, n).await;
        assert!(
            matches!(none, Err(PartError::NoPart { parts: 19 })),
            "{n}: {none:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_conversation_school_or_call_has_no_such_result() {
    let scene = Scene::new().await;
    scene.connected().await;
    let (call, _) = scene.kept(&numbered(2)).await;
    let no_result = |result: Result<ResultPart, PartError>| {
        assert!(matches!(result, Err(PartError::NoResult)), "{result:?}");
    };
    no_result(scene.part(mint(T0), 1).await);
    let person = (&ann(), Role::Admin);
    let client: ClientId = "chat-other".parse().unwrap();
    let elsewhere = ConversationId::of(&ann(), &client);
    let school = scene.school();
    no_result(
        school
            .open_result(&catalogue(), person, &elsewhere, call, 1)
            .await,
    );
    let other = scene
        .stage
        .school("hilltop", "https://issuer.example", "api")
        .await;
    let other = scene.stage.store.school(&other);
    no_result(
        other
            .open_result(&catalogue(), person, &conversation(), call, 1)
            .await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_closes_with_its_connection() {
    let scene = Scene::new().await;
    scene.connected().await;
    let (call, _) = scene.kept(&numbered(2)).await;
    assert!(scene.part(call, 2).await.is_ok());
    let school = scene.school();
    school.set_kill("type:demo", true).await.unwrap();
    let killed = scene.part(call, 2).await;
    let closed = OpenError::Denied(BlockReason::Killed).to_string();
    assert_eq!(killed.unwrap_err().to_string(), closed);
    school.set_kill("type:demo", false).await.unwrap();
    let person = (&ann(), Role::Teacher);
    let result = school
        .open_result(&catalogue(), person, &conversation(), call, 2)
        .await;
    assert!(
        matches!(
            result,
            Err(PartError::Closed(OpenError::Denied(BlockReason::Role)))
        ),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writes_result_is_readable_only_once_it_is_settled() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let school = scene.school();
    let text = numbered(3);
    // A runner that died between the chunks and the settling.
    let origin = ResultOrigin {
        tool: row.tool.clone(),
        approval: Some(row.approval_id),
        ..origin()
    };
    let kept = school
        .keep_result(&row.conversation, row.call, &origin, &text)
        .await;
    assert_eq!(kept, 1);
    let early = scene.part(row.call, 2).await;
    assert!(matches!(early, Err(PartError::NoResult)), "{early:?}");
    let attempt = row.attempt.as_ref().unwrap().id;
    let settled = school
        .settle(
            &row,
            attempt,
            succeeded("0000001"),
            &text,
            clock(),
            T0.plus(5_000),
        )
        .await
        .unwrap();
    assert_eq!((settled.state, settled.chunks), (State::Succeeded, 1));
    let part = scene.part(row.call, 2).await.unwrap();
    assert!(part.text.starts_with("0000002 "));
    assert_eq!(part.origin, origin);
}
