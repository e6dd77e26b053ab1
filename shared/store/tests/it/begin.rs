//! A message is stored once, whoever sends it how often at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use toshi_core::{ClientId, ConversationId, LEASE_MS, MessageAuthor, MessageId, TurnId};
use toshi_store::{Begun, DueKind, Release, StoreError};

use crate::scene::{Scene, T0, TASKS, ann, conversation, message, race};

fn ids(begun: &Begun) -> (TurnId, MessageId) {
    match begun {
        Begun::Started(begin) => (begin.turn.turn, begin.turn.answer),
        Begun::Queued { turn, answer } | Begun::Known { turn, answer } => (*turn, *answer),
    }
}

/// How many were started, queued and known.
fn count(all: &[Begun]) -> (usize, usize, usize) {
    all.iter().fold((0, 0, 0), |(s, q, k), begun| match begun {
        Begun::Started(_) => (s + 1, q, k),
        Begun::Queued { .. } => (s, q + 1, k),
        Begun::Known { .. } => (s, q, k + 1),
    })
}

async fn begin_at_once(scene: &Arc<Scene>, text: impl Fn(usize) -> (String, String)) -> Vec<Begun> {
    race(TASKS, |index| {
        let (scene, (id, text)) = (Arc::clone(scene), text(index));
        async move {
            let new = message(&id, &text);
            scene.school().begin(&new, None, T0).await.unwrap()
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_32_times_at_once_starts_one_turn_and_is_known_to_the_rest() {
    let scene = Scene::new().await;
    let all = begin_at_once(&scene, |_| ("m-1".into(), "hello".into())).await;
    assert_eq!(count(&all), (1, 0, TASKS - 1));
    let same: BTreeSet<_> = all.iter().map(ids).collect();
    assert_eq!(same.len(), 1, "all have the same turn and answer");
    let items = scene.everything().await;
    // META, UM, two messages, the turn, and the place in the owner's list.
    assert_eq!(items.len(), 6, "{:?}", items.keys());
}

#[tokio::test(flavor = "multi_thread")]
async fn different_messages_at_once_are_each_stored_once() {
    let scene = Scene::new().await;
    let all = begin_at_once(&scene, |n| (format!("m-{n}"), format!("text {n}"))).await;
    assert_eq!(count(&all), (1, TASKS - 1, 0));
    let distinct: BTreeSet<_> = all.iter().map(ids).collect();
    assert_eq!(distinct.len(), TASKS);
    let keys = scene.keys("").await;
    let with = |prefix: &str| keys.iter().filter(|sk| sk.starts_with(prefix)).count();
    assert_eq!(
        (with("M#"), with("IN#"), with("UM#")),
        (2, TASKS - 1, TASKS)
    );
    let meta = scene.school().meta(&conversation()).await.unwrap().unwrap();
    assert_eq!((meta.next, meta.wake, meta.fence), (3, TASKS as u64 - 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn message_numbers_are_unique_and_without_gaps_when_turns_start_at_once() {
    let scene = Scene::new().await;
    let all = race(TASKS, |n| {
        let scene = Arc::clone(&scene);
        async move {
            let new = message(&format!("m-{n}"), "text");
            let begun = scene.school().begin(&new, None, T0).await.unwrap();
            if let Begun::Started(begin) = &begun {
                // Lets the next one start as well.
                let how = Release::LeaveDue(0);
                let school = scene.school();
                school
                    .release(&conversation(), &begin.lease, how, T0)
                    .await
                    .unwrap();
            }
            begun
        }
    })
    .await;
    let (started, queued, known) = count(&all);
    assert_eq!((started + queued, known), (TASKS, 0));
    let page = scene
        .school()
        .messages(&conversation(), None, 200)
        .await
        .unwrap();
    let numbers: Vec<u64> = page.messages.iter().map(|row| row.seq).collect();
    let expected: Vec<u64> = (1..=2 * started as u64).collect();
    assert_eq!(numbers, expected);
    let waiting = scene.keys("IN#").await.len();
    assert_eq!(waiting, queued);
    let users = page.messages.iter().filter_map(|row| match &row.author {
        MessageAuthor::User { id, .. } => Some(id.to_string()),
        MessageAuthor::Assistant { .. } => None,
    });
    assert_eq!(users.collect::<BTreeSet<_>>().len(), started);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_with_another_text_is_another_message() {
    let scene = Scene::new().await;
    let all = begin_at_once(&scene, |n| ("m-1".into(), format!("text {}", n % 2))).await;
    assert_eq!(count(&all), (1, 1, TASKS - 2));
    assert_eq!(all.iter().map(ids).collect::<BTreeSet<_>>().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_for_a_held_conversation_waits_wakes_it_and_makes_it_due() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    assert_eq!(scene.due(T0).await, [], "the lease covers it");
    let all = race(TASKS, |_| {
        let (scene, meta) = (Arc::clone(&scene), begin.meta.clone());
        async move {
            let new = message("m-2", "more");
            scene
                .school()
                .begin(&new, Some(meta), T0.plus(5))
                .await
                .unwrap()
        }
    })
    .await;
    assert_eq!(count(&all), (0, 1, TASKS - 1));
    assert_eq!(all.iter().map(ids).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(scene.wake().await, 1, "one message, one bump");
    let inbox = scene.school().inbox(&conversation()).await.unwrap();
    assert_eq!(inbox.len(), 1);
    assert_eq!((inbox[0].turn, inbox[0].answer), ids(&all[0]));
    assert_eq!((inbox[0].text.as_str(), &inbox[0].user), ("more", &ann()));
    assert_eq!(scene.due(T0.plus(4)).await, []);
    let due = scene.due(T0.plus(5)).await;
    assert_eq!(due.len(), 1);
    assert_eq!(
        (due[0].kind, &due[0].conversation),
        (DueKind::Conversation, &conversation())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_again_on_purpose_gets_another_answer() {
    let scene = Scene::new().await;
    let first = scene.begun("m-1", T0).await;
    let school = scene.school();
    assert!(
        school
            .release(&conversation(), &first.lease, Release::IfNothingNew, T0)
            .await
            .unwrap()
    );
    let mut again = message("m-1", "Post it");
    again.message.again = true;
    again.message.replaces_from = Some(1);
    let meta = school.meta(&conversation()).await.unwrap();
    let begun = school.begin(&again, meta, T0).await.unwrap();
    let Begun::Started(second) = begun else {
        panic!("{begun:?}")
    };
    assert_ne!(second.turn.turn, first.turn.turn);
    assert_eq!((second.turn.message_seq, second.turn.answer_seq), (3, 4));
    let meta = school.meta(&conversation()).await.unwrap().unwrap();
    assert_eq!(meta.replaced, [(1, 3)]);
    assert_eq!(meta.open, [first.turn.turn, second.turn.turn]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_renewed_after_it_was_read_as_run_out_is_not_taken() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let late = T0.plus(LEASE_MS);
    let school = scene.school();
    let renewed = school
        .renew(&conversation(), begin.lease.fence, late)
        .await
        .unwrap();
    assert_eq!(renewed, Some(late.plus(LEASE_MS)));
    // The row as it was read before the renewal: its lease has run out.
    let all = race(TASKS, |n| {
        let (scene, meta) = (Arc::clone(&scene), begin.meta.clone());
        async move {
            let new = message(&format!("m-2-{n}"), "more");
            scene.school().begin(&new, Some(meta), late).await.unwrap()
        }
    })
    .await;
    assert_eq!(count(&all), (0, TASKS, 0));
    let meta = school.meta(&conversation()).await.unwrap().unwrap();
    assert_eq!(meta.fence, begin.lease.fence, "the holder still holds it");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_brings_a_deleted_conversation_back() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let school = scene.school();
    school
        .erase_conversation(&begin.meta, &begin.lease, T0)
        .await
        .unwrap();
    let before = scene.everything().await;
    let all = race(TASKS, |n| {
        // As read before the deletion (held, and free), and not at all.
        let held = begin.meta.clone();
        let free = toshi_core::ConversationRow {
            lease_until: None,
            ..held.clone()
        };
        let meta = [Some(held), Some(free), None][n % 3].clone();
        let scene = Arc::clone(&scene);
        async move {
            scene
                .school()
                .begin(&message("m-2", "more"), meta, T0)
                .await
        }
    })
    .await;
    for result in &all {
        assert!(matches!(result, Err(StoreError::Deleted)), "{result:?}");
    }
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_stands_once_in_its_owners_list_under_its_first_words() {
    let scene = Scene::new().await;
    let school = scene.school();
    let new = message("m-1", &format!("  Sports \n day {}", "ä".repeat(100)));
    school.begin(&new, None, T0).await.unwrap();
    let meta = school.meta(&conversation()).await.unwrap();
    school
        .begin(&message("m-2", "Later words"), meta, T0.plus(9))
        .await
        .unwrap();
    let page = school.conversations(&ann(), None, 10).await.unwrap();
    assert_eq!((page.items.len(), page.next), (1, None));
    let listed = &page.items[0];
    assert!(
        listed.title.starts_with("Sports day ää"),
        "{}",
        listed.title
    );
    assert!(listed.title.chars().count() <= 80);
    assert_eq!(
        (listed.last_activity, &listed.conversation),
        (T0.plus(9), &conversation())
    );
    let nobody = school
        .conversations(&"bob".parse().unwrap(), None, 10)
        .await
        .unwrap();
    assert!(nobody.items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_paged_to_its_end_although_its_conversations_move_and_go() {
    let scene = Scene::new().await;
    let school = scene.school();
    let begin = async |n: i64, now| {
        let mut new = message("m-1", "hello");
        new.client_id = format!("chat-{n:04}").parse().unwrap();
        new.conversation = ConversationId::of(&ann(), &new.client_id);
        new.message.id = format!("m-{now:?}")
            .replace(['(', ')'], "")
            .parse()
            .unwrap();
        let meta = school.meta(&new.conversation).await.unwrap();
        school.begin(&new, meta, now).await.unwrap();
        new
    };
    let mut all = Vec::new();
    for n in 0..6 {
        // Two in each instant.
        all.push(begin(n, T0.plus(n / 2)).await.client_id);
    }
    all.reverse();
    let page = school.conversations(&ann(), None, 3).await.unwrap();
    let ids = |page: &toshi_store::ConversationPage| -> Vec<ClientId> {
        page.items.iter().map(|row| row.client_id.clone()).collect()
    };
    assert_eq!(ids(&page), all[..3]);
    // The page's last conversation is used again, another of it is deleted.
    begin(3, T0.plus(100)).await;
    let gone = ConversationId::of(&ann(), &all[1]);
    let meta = school.meta(&gone).await.unwrap().unwrap();
    school
        .erase_conversation(&meta, &meta.lease(), T0)
        .await
        .unwrap();
    let rest = school
        .conversations(&ann(), page.next.as_deref(), 3)
        .await
        .unwrap();
    assert_eq!((ids(&rest), rest.next), (all[3..].to_vec(), None));
    // What is no cursor of ours shows nothing, rather than everything again.
    for wrong in ["", "x", "x#chat-0001", "5"] {
        let page = school.conversations(&ann(), Some(wrong), 3).await.unwrap();
        assert!(page.items.is_empty(), "{wrong}");
    }
}

/// One message under way, the second in the inbox, and the runner gone with work left.
async fn two_messages_and_nobody_at_work(scene: &Scene) {
    let school = scene.school();
    let begun = school
        .begin(&message("m-1", "one"), None, T0)
        .await
        .unwrap();
    let Begun::Started(begin) = begun else {
        panic!("{begun:?}")
    };
    let meta = school.meta(&conversation()).await.unwrap();
    let second = school
        .begin(&message("m-2", "two"), meta, T0)
        .await
        .unwrap();
    assert!(matches!(second, Begun::Queued { .. }), "{second:?}");
    let lease = begin.meta.lease();
    let released = school
        .release(&conversation(), &lease, Release::LeaveDue(0), T0)
        .await;
    assert!(released.unwrap());
}

#[tokio::test]
async fn a_message_waits_behind_those_that_wait_though_nobody_is_at_work() {
    let scene = Scene::new().await;
    two_messages_and_nobody_at_work(&scene).await;
    let school = scene.school();
    let meta = school.meta(&conversation()).await.unwrap();
    let third = school
        .begin(&message("m-3", "three"), meta, T0.plus(5))
        .await
        .unwrap();
    assert!(matches!(third, Begun::Queued { .. }), "{third:?}");
    let inbox = school.inbox(&conversation()).await.unwrap();
    let texts: Vec<&str> = inbox.iter().map(|row| row.text.as_str()).collect();
    assert_eq!(texts, ["two", "three"]);
}

#[tokio::test]
async fn a_waiting_message_that_is_sent_with_another_text_is_replaced() {
    let scene = Scene::new().await;
    two_messages_and_nobody_at_work(&scene).await;
    let school = scene.school();
    let meta = school.meta(&conversation()).await.unwrap();
    let again = school
        .begin(&message("m-2", "two, but better"), meta, T0.plus(5))
        .await
        .unwrap();
    assert!(matches!(again, Begun::Queued { .. }), "{again:?}");
    let inbox = school.inbox(&conversation()).await.unwrap();
    let texts: Vec<&str> = inbox.iter().map(|row| row.text.as_str()).collect();
    assert_eq!(texts, ["two, but better"]);
}
