//! Schools, people and the counting of their messages.

use std::sync::Arc;

use toshi_core::{MESSAGES_PER_PERSON, Role, TenantId};
use toshi_store::{IdentityRow, PersonStatus, UserRow};

use crate::scene::{Scene, T0, TASKS, ann, race};

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_found_by_issuer_and_subject_in_each_of_their_schools() {
    let scene = Scene::new().await;
    let stage = &scene.stage;
    let lakeside = stage
        .school("lakeside", "https://id.example", "toshi")
        .await;
    let hilltop = stage.school("hilltop", "https://id.example", "toshi").await;
    for tenant in [&lakeside, &hilltop] {
        stage
            .person(tenant, "https://id.example", "ann", Role::Teacher)
            .await;
    }
    let store = &stage.store;
    let mut schools: Vec<TenantId> = store
        .identities("https://id.example", "ann")
        .await
        .unwrap()
        .into_iter()
        .filter_map(|row| row.tenant)
        .collect();
    schools.sort();
    assert_eq!(schools, [hilltop.clone(), lakeside.clone()]);
    for (issuer, subject) in [
        ("https://other.example", "ann"),
        ("https://id.example", "bob"),
    ] {
        assert!(store.identities(issuer, subject).await.unwrap().is_empty());
    }
    let operator = UserRow {
        user: ann(),
        name: "Operator".to_owned(),
        role: Role::Operator,
        status: PersonStatus::Active,
    };
    store.put_operator(&operator).await.unwrap();
    let identity = IdentityRow {
        tenant: None,
        user: ann(),
    };
    store
        .put_identity("https://id.example", "op", &identity)
        .await
        .unwrap();
    assert_eq!(
        store.identities("https://id.example", "op").await.unwrap(),
        [identity]
    );
    assert_eq!(store.operator(&ann()).await.unwrap(), Some(operator));
    let person = store.school(&lakeside).user(&ann()).await.unwrap().unwrap();
    assert_eq!(
        person.role,
        Role::Teacher,
        "the operator's row is another one"
    );
    let names: Vec<String> = store
        .tenants()
        .await
        .unwrap()
        .into_iter()
        .map(|row| row.tenant.to_string())
        .collect();
    assert_eq!(names, ["hilltop", "lakeside"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_too_many_of_one_person_are_not_counted_for_the_school() {
    let scene = Scene::new().await;
    let mut counted = Vec::new();
    for _ in 0..MESSAGES_PER_PERSON + 5 {
        let (person, school, _) = scene.school().count_message(&ann(), T0).await.unwrap();
        counted.push((person, school));
    }
    let expected = (1..=MESSAGES_PER_PERSON + 5).map(|n| (n, n.min(MESSAGES_PER_PERSON)));
    assert_eq!(counted, expected.collect::<Vec<_>>());
    let bob = "bob".parse().unwrap();
    let (person, school, _) = scene.school().count_message(&bob, T0).await.unwrap();
    assert_eq!((person, school), (1, MESSAGES_PER_PERSON + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_counted_by_the_minute_for_the_person_and_for_the_school() {
    let scene = Scene::new().await;
    // Four people, at once, in one minute, none with too many.
    let counts = race(2 * TASKS, |n| {
        let scene = Arc::clone(&scene);
        async move {
            let user = ["ann", "bob", "cem", "dia"][n % 4].parse().unwrap();
            let now = T0.plus(n as i64 * 900);
            scene.school().count_message(&user, now).await.unwrap()
        }
    })
    .await;
    let mut school: Vec<u64> = counts.iter().map(|(_, school, _)| *school).collect();
    school.sort_unstable();
    assert_eq!(school, (1..=2 * TASKS as u64).collect::<Vec<_>>());
    let mut person: Vec<u64> = counts.iter().map(|(person, _, _)| *person).collect();
    person.sort_unstable();
    let each: Vec<u64> = (1..=TASKS as u64 / 2).flat_map(|n| [n; 4]).collect();
    assert_eq!(person, each);
    assert!(counts.iter().all(|(_, _, left)| (1..=60).contains(left)));

    let next = T0.plus(60_000);
    let (person, school, left) = scene.school().count_message(&ann(), next).await.unwrap();
    assert_eq!((person, school, left), (1, 1, 60));
    let other = TenantId::from_stored("hilltop").unwrap();
    let counted = scene
        .stage
        .store
        .school(&other)
        .count_message(&ann(), T0)
        .await
        .unwrap();
    assert_eq!(
        (counted.0, counted.1),
        (1, 1),
        "schools do not share a counter"
    );
    for item in scene.items(&scene.stage.table).await.values() {
        let ttl: i64 = item["ttl"].as_n().unwrap().parse().unwrap();
        assert!(
            ttl > next.as_epoch_seconds(),
            "a counter outlives its minute, and then goes"
        );
    }
}
