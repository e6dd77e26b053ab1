//! A connection's row, token and tools change together, and no change is lost.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use toshi_core::{ConnectionRow, ConnectionStatus, Era, Role, TenantId, WriteMode};
use toshi_store::StoreError;

use crate::scene::{Scene, T0, TASKS, catalogue, connection_row, race, tool_row};

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_connection_reads_back_with_its_token_and_tools() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    assert_eq!(target.connection, connection_row("con-1"));
    assert_eq!(
        target.tool,
        Some(tool_row(&target.connection.connection, "post_message"))
    );
    assert!(!target.killed);
    let credential = target.credential.unwrap();
    assert_eq!((credential.tok_ver, credential.epoch), (1, 1));
    let school = scene.school();
    let token = school
        .access_token(&scene.stage.vault, &target.connection, &credential, T0)
        .await;
    assert_eq!(token.unwrap().expose_secret(), "secret-token");
    let everything = format!("{:?}", scene.everything().await);
    assert!(!everything.contains("secret-token"), "it is stored sealed");
    assert!(
        scene
            .school()
            .target("demo", &"con-9".parse().unwrap(), "x")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_32_changes_made_to_the_same_version_one_holds() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let results = race(TASKS, |n| {
        let (scene, mut row) = (Arc::clone(&scene), target.connection.clone());
        async move {
            row.epoch += 1;
            row.account_name = format!("name {n}");
            scene.school().update_connection(&row).await.map(|()| row)
        }
    })
    .await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    assert!(
        lost.iter()
            .all(|result| matches!(result, Err(StoreError::Conflict)))
    );
    assert_eq!(
        scene.target("con-1").await.connection,
        *won[0].as_ref().unwrap()
    );
    let missing = scene
        .school()
        .update_connection(&connection_row("con-9"))
        .await;
    assert!(matches!(missing, Err(StoreError::Conflict)), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_server_speaks_is_kept_for_its_own_connection_and_disturbs_no_claim() {
    let scene = Scene::new().await;
    let row = scene.approved().await;
    let target = scene.connected().await;
    let other = TenantId::from_stored("hilltop").unwrap();
    let others = scene.stage.store.school(&other);
    let token = SecretString::from("their-token");
    let vault = &scene.stage.vault;
    others
        .put_connection(vault, &connection_row("con-1"), &token, &[])
        .await
        .unwrap();

    let school = scene.school();
    for era in [Era::Handshake, Era::Stateless] {
        assert!(school.learn_era(&target.connection, era).await.unwrap());
        let now = scene.target("con-1").await.connection;
        let expected = ConnectionRow {
            era: Some(era),
            ..target.connection.clone()
        };
        assert_eq!(now, expected, "nothing else changed");
    }
    assert_eq!(others.connections().await.unwrap()[0].era, None);

    // A claim that read the row before still holds.
    let claimed = school
        .claim(&catalogue(), Role::Admin, &row, &target, T0)
        .await;
    assert!(claimed.is_ok(), "{claimed:?}");

    let mut newer = scene.target("con-1").await.connection;
    newer.epoch += 1;
    school.update_connection(&newer).await.unwrap();
    let stale = school.learn_era(&target.connection, Era::Handshake).await;
    assert!(!stale.unwrap(), "it may be another server by now");
    assert_eq!(scene.target("con-1").await.connection, newer);
    let missing = connection_row("con-9");
    let learned = school.learn_era(&missing, Era::Stateless).await;
    assert!(!learned.unwrap());
    assert_eq!(
        school.connections().await.unwrap().len(),
        1,
        "none was made"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconnection_does_not_undo_a_change_made_meanwhile() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let school = scene.school();
    let mut disabled = target.connection.clone();
    disabled.epoch = 2;
    disabled.usable = false;
    disabled.status = ConnectionStatus::Disabled;
    school.update_connection(&disabled).await.unwrap();

    let vault = &scene.stage.vault;
    let token = SecretString::from("newer-token");
    for epoch in [1, 2] {
        let mut row = target.connection.clone();
        row.epoch = epoch;
        row.write_mode = WriteMode::All;
        let result = school.put_connection(vault, &row, &token, &[]).await;
        assert!(
            matches!(result, Err(StoreError::Conflict)),
            "epoch {epoch}: {result:?}"
        );
        let now = scene.target("con-1").await;
        assert_eq!(
            (now.connection, now.credential.unwrap().tok_ver),
            (disabled.clone(), 1)
        );
    }
    let mut row = target.connection.clone();
    row.epoch = 3;
    school
        .put_connection(vault, &row, &token, &[])
        .await
        .unwrap();
    let now = scene.target("con-1").await;
    assert_eq!(now.connection, row);
    let credential = now.credential.unwrap();
    assert_eq!((credential.tok_ver, credential.epoch), (2, 3));
    let opened = school
        .access_token(vault, &row, &credential, T0)
        .await
        .unwrap();
    assert_eq!(opened.expose_secret(), "newer-token");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_32_first_connections_one_is_stored_with_its_own_token() {
    let scene = Scene::new().await;
    let results = race(TASKS, |n| {
        let scene = Arc::clone(&scene);
        async move {
            let mut row = connection_row("con-1");
            row.account = format!("account-{n}");
            let token = SecretString::from(format!("token-{n}"));
            scene
                .school()
                .put_connection(&scene.stage.vault, &row, &token, &[])
                .await
                .map(|()| n)
        }
    })
    .await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    assert!(
        lost.iter()
            .all(|result| matches!(result, Err(StoreError::Conflict))),
        "{lost:?}"
    );
    let n = won[0].as_ref().unwrap();
    let target = scene.target("con-1").await;
    assert_eq!(target.connection.account, format!("account-{n}"));
    let credential = target.credential.unwrap();
    let school = scene.school();
    let token = school
        .access_token(&scene.stage.vault, &target.connection, &credential, T0)
        .await;
    assert_eq!(token.unwrap().expose_secret(), format!("token-{n}"));
}
