//! A sealed value opens where it belongs and nowhere else.

use std::sync::Arc;

use aws_config::{BehaviorVersion, Region};
use secrecy::{ExposeSecret, SecretString};
use toshi_core::{ConnectionId, Millis, TenantId};
use toshi_store::{KeyName, SealContext, Sealed, StoreError, Vault, VaultConfig};
use toshi_test_support::endpoint;

use crate::scene::{Scene, T0, TASKS, race};

const FIVE_MINUTES: i64 = 5 * 60 * 1000;

struct Place {
    tenant: TenantId,
    connection: ConnectionId,
}

impl Place {
    fn of(tenant: &str, connection: &str) -> Self {
        Self {
            tenant: TenantId::from_stored(tenant).unwrap(),
            connection: connection.parse().unwrap(),
        }
    }

    fn context(&self) -> SealContext<'_> {
        SealContext {
            key: KeyName::Access,
            tenant: Some(&self.tenant),
            connection: Some(&self.connection),
            kind: "demo",
            purpose: "access",
            version: 3,
            epoch: 7,
        }
    }
}

fn secret() -> SecretString {
    SecretString::from("xoxp-canary")
}

#[expect(clippy::disallowed_methods, reason = "this is the test's wiring")]
async fn kms() -> aws_sdk_kms::Client {
    let config = aws_config::defaults(BehaviorVersion::latest())
        .endpoint_url(endpoint())
        .region(Region::new("eu-west-1"))
        .credentials_provider(aws_sdk_kms::config::Credentials::new(
            "test", "test", None, None, "test",
        ))
        .load()
        .await;
    aws_sdk_kms::Client::new(&config)
}

/// A vault that has opened nothing yet, over the same keys.
async fn fresh(scene: &Scene) -> Vault {
    let config = VaultConfig {
        access: Some(scene.stage.key.clone()),
        platform: Some(scene.stage.key.clone()),
        environment: "test".to_owned(),
    };
    Vault::new(kms().await, config)
}

fn bytes(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_opens_under_its_own_context_from_any_process() {
    let scene = Scene::new().await;
    let place = Place::of("lakeside", "con-1");
    let vault = &scene.stage.vault;
    let sealed = vault.seal(&place.context(), &secret()).await.unwrap();
    for vault in [vault.clone(), fresh(&scene).await] {
        let opened = vault.open(&place.context(), &sealed, T0).await.unwrap();
        assert_eq!(opened.expose_secret(), "xoxp-canary");
    }
    let other = vault.seal(&place.context(), &secret()).await.unwrap();
    assert_ne!(other.blob, sealed.blob, "a nonce and a key for each");
    assert_ne!(other.data_key, sealed.data_key);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_anywhere_in_the_blob_is_found() {
    let scene = Scene::new().await;
    let place = Place::of("lakeside", "con-1");
    let vault = &scene.stage.vault;
    let sealed = vault.seal(&place.context(), &secret()).await.unwrap();
    let blob = bytes(&sealed.blob);
    for index in 0..blob.len() {
        let mut altered = blob.clone();
        altered[index] ^= 1;
        let altered = Sealed {
            blob: base64(&altered),
            ..sealed.clone()
        };
        let result = vault.open(&place.context(), &altered, T0).await;
        let why = match result {
            Err(StoreError::Sealed(why)) => why,
            other => panic!("byte {index}: {other:?}"),
        };
        let expected = if index == 0 {
            "its format is not known"
        } else {
            "it was altered or belongs to another row"
        };
        assert_eq!(why, expected, "byte {index}");
    }
    for length in [0, 1, 12, 13, blob.len() - 1] {
        let cut = Sealed {
            blob: base64(&blob[..length]),
            ..sealed.clone()
        };
        let result = vault.open(&place.context(), &cut, T0).await;
        assert!(
            matches!(result, Err(StoreError::Sealed(_))),
            "{length}: {result:?}"
        );
    }
    let noise = Sealed {
        blob: "not base64!".to_owned(),
        ..sealed
    };
    let result = vault.open(&place.context(), &noise, T0).await;
    assert!(
        matches!(result, Err(StoreError::Sealed("it is not base64"))),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_moved_anywhere_else_does_not_open_with_a_warm_or_a_cold_cache() {
    let scene = Scene::new().await;
    let place = Place::of("lakeside", "con-1");
    let other_tenant = Place::of("hilltop", "con-1");
    let other_connection = Place::of("lakeside", "con-2");
    let home = place.context();
    let vault = &scene.stage.vault;
    let sealed = vault.seal(&home, &secret()).await.unwrap();
    vault.open(&home, &sealed, T0).await.unwrap();
    let moved = [
        other_tenant.context(),
        other_connection.context(),
        SealContext {
            tenant: None,
            ..home.clone()
        },
        SealContext {
            connection: None,
            ..home.clone()
        },
        SealContext {
            kind: "slack",
            ..home.clone()
        },
        SealContext {
            purpose: "refresh",
            ..home.clone()
        },
        SealContext {
            version: 2,
            ..home.clone()
        },
        SealContext {
            version: 4,
            ..home.clone()
        },
        SealContext {
            epoch: 8,
            ..home.clone()
        },
    ];
    let cold = fresh(&scene).await;
    for context in moved {
        for vault in [vault, &cold] {
            let result = vault.open(&context, &sealed, T0).await;
            assert!(
                matches!(result, Err(StoreError::Sealed(_))),
                "{context:?}: {result:?}"
            );
        }
    }
    let elsewhere = VaultConfig {
        access: Some(scene.stage.key.clone()),
        platform: None,
        environment: "prod".to_owned(),
    };
    let elsewhere = Vault::new(kms().await, elsewhere);
    let result = elsewhere.open(&home, &sealed, T0).await;
    assert!(matches!(result, Err(StoreError::Sealed(_))), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_version_of_a_row_does_not_open_although_its_key_does() {
    // KMS knows neither version nor epoch: this refusal is the sealed data's own.
    let scene = Scene::new().await;
    let place = Place::of("lakeside", "con-1");
    let vault = &scene.stage.vault;
    let sealed = vault.seal(&place.context(), &secret()).await.unwrap();
    let changes = [
        SealContext {
            version: 4,
            ..place.context()
        },
        SealContext {
            epoch: 8,
            ..place.context()
        },
    ];
    for context in changes {
        let result = vault.open(&context, &sealed, T0).await;
        let expected = matches!(
            result,
            Err(StoreError::Sealed(
                "it was altered or belongs to another row"
            ))
        );
        assert!(expected, "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_key_does_not_open_another_rows_blob() {
    let scene = Scene::new().await;
    let (one, two) = (
        Place::of("lakeside", "con-1"),
        Place::of("lakeside", "con-2"),
    );
    let vault = &scene.stage.vault;
    let first = vault.seal(&one.context(), &secret()).await.unwrap();
    let second = vault.seal(&two.context(), &secret()).await.unwrap();
    for (place, sealed) in [(&one, &first), (&two, &second)] {
        vault.open(&place.context(), sealed, T0).await.unwrap();
    }
    let mixed = Sealed {
        data_key: first.data_key.clone(),
        blob: second.blob.clone(),
    };
    for place in [&one, &two] {
        let result = vault.open(&place.context(), &mixed, T0).await;
        assert!(matches!(result, Err(StoreError::Sealed(_))), "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwrapped_key_is_kept_for_five_minutes_and_no_longer() {
    let scene = Scene::new().await;
    let place = Place::of("lakeside", "con-1");
    let vault = &scene.stage.vault;
    let sealed = vault.seal(&place.context(), &secret()).await.unwrap();
    vault.open(&place.context(), &sealed, T0).await.unwrap();
    kms()
        .await
        .disable_key()
        .key_id(&scene.stage.key)
        .send()
        .await
        .unwrap();
    let open = async |now: Millis| vault.open(&place.context(), &sealed, now).await;
    assert!(open(T0.plus(FIVE_MINUTES - 1)).await.is_ok());
    for now in [T0.plus(FIVE_MINUTES), T0] {
        // The second look shows that the key is gone, not only overdue.
        let result = open(now).await;
        assert!(
            matches!(result, Err(StoreError::Aws { service: "KMS", .. })),
            "{result:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_without_a_key_says_so() {
    let scene = Scene::new().await;
    let place = Place::of("lakeside", "con-1");
    let sealed = scene
        .stage
        .vault
        .seal(&place.context(), &secret())
        .await
        .unwrap();
    let vault = Vault::new(kms().await, VaultConfig::default());
    let result = vault.open(&place.context(), &sealed, T0).await;
    let why = "this function has no access to that key";
    assert!(
        matches!(result, Err(StoreError::Sealed(text)) if text == why),
        "{result:?}"
    );
    assert!(vault.seal(&place.context(), &secret()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_platform_secret_is_set_kept_and_replaced() {
    let scene = Scene::new().await;
    let (vault, store) = (&scene.stage.vault, &scene.stage.store);
    let text = |text: &str| SecretString::from(text.to_owned());
    let read = async || {
        let secret = vault.platform_secret(store, "hmac", T0).await;
        secret.map(|secret| secret.expose_secret().to_owned())
    };
    let missing = read().await;
    assert!(
        matches!(&missing, Err(StoreError::NoSecret(name)) if name == "hmac"),
        "{missing:?}"
    );
    assert!(
        vault
            .set_platform_secret(store, "hmac", &text("one"), true)
            .await
            .unwrap()
    );
    assert_eq!(read().await.unwrap(), "one");
    assert!(
        !vault
            .set_platform_secret(store, "hmac", &text("two"), true)
            .await
            .unwrap()
    );
    assert_eq!(read().await.unwrap(), "one");
    assert!(
        vault
            .set_platform_secret(store, "hmac", &text("three"), false)
            .await
            .unwrap()
    );
    assert_eq!(read().await.unwrap(), "three");
    // The row of one name under another name is of no use.
    let items = scene.items(&scene.stage.table).await;
    let mut row = items.values().next().unwrap().clone();
    row.insert(
        "SK".to_owned(),
        aws_sdk_dynamodb::types::AttributeValue::S("SECRET#model".into()),
    );
    let put = scene
        .stage
        .db
        .put_item()
        .table_name(&scene.stage.table)
        .set_item(Some(row));
    put.send().await.unwrap();
    let moved = vault.platform_secret(store, "model", T0).await;
    assert!(matches!(moved, Err(StoreError::Sealed(_))), "{moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_32_who_make_a_secret_at_once_one_does_and_whoever_keeps_is_content() {
    for keep in [true, false] {
        let scene = Scene::new().await;
        let results = race(TASKS, |n| {
            let scene = Arc::clone(&scene);
            async move {
                let secret = SecretString::from(format!("secret-{n}"));
                let stage = &scene.stage;
                stage
                    .vault
                    .set_platform_secret(&stage.store, "hmac", &secret, keep)
                    .await
            }
        })
        .await;
        let made: Vec<_> = results
            .iter()
            .filter(|result| matches!(result, Ok(true)))
            .collect();
        if keep {
            assert_eq!(made.len(), 1);
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        } else {
            // Some come one after another; whoever collided is told.
            assert!(!made.is_empty());
            let fine = |result| matches!(result, &Ok(true) | &Err(StoreError::Conflict));
            assert!(results.iter().all(fine), "{results:?}");
        }
        let stage = &scene.stage;
        let read = stage
            .vault
            .platform_secret(&stage.store, "hmac", T0)
            .await
            .unwrap();
        assert!(read.expose_secret().starts_with("secret-"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_can_be_printed_shows_a_secret() {
    let scene = Scene::new().await;
    let place = Place::of("lakeside", "con-1");
    let vault = &scene.stage.vault;
    let sealed = vault.seal(&place.context(), &secret()).await.unwrap();
    let opened = vault.open(&place.context(), &sealed, T0).await.unwrap();
    let wrong = vault
        .open(&Place::of("hilltop", "con-1").context(), &sealed, T0)
        .await;
    let shown = format!("{vault:?} {opened:?} {sealed:?} {wrong:?} {:?}", secret());
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(format!("{vault:?}"), "Vault { .. }");
}
