//! What a test needs of the cloud: tables, a queue and keys of its own on the emulator, and rows.
//!
//! Run such tests under `infra/dev.py emulator -- cargo test …`, which starts the emulator and says
//! where it is. With `TOSHI_TEST_DYNAMODB=dynoxide` their tables are in SQLite instead.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's stage fails the test"
)]

#[cfg(feature = "dynoxide")]
mod dynoxide;
mod issuer;
mod rows;
mod tables;

use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::config::Builder as TableConfig;
use toshi_core::Millis;
use toshi_store::{Store, StoreConfig, Vault, VaultConfig, WakeMessage, WakeQueue};

pub use issuer::{AUDIENCE, Issuer};
pub use rows::{Asked, Question};

/// Everything that one test touches; nothing of it is shared with another test.
#[derive(Debug)]
pub struct Stage {
    pub store: Store,
    pub vault: Vault,
    pub queue: WakeQueue,
    /// For what no function may do: altering and removing rows.
    pub db: aws_sdk_dynamodb::Client,
    pub table: String,
    pub audit_table: String,
    pub queue_url: String,
    pub key: String,
    sqs: aws_sdk_sqs::Client,
}

impl Stage {
    pub async fn new() -> Self {
        match setting("TOSHI_TEST_DYNAMODB").as_str() {
            "" => Self::at(&endpoint()).await,
            #[cfg(feature = "dynoxide")]
            "dynoxide" => Self::on_dynoxide().await,
            other => panic!("TOSHI_TEST_DYNAMODB is {other:?}: no such tables here"),
        }
    }

    /// On the emulator behind this address, which a measurement may put a proxy at.
    pub async fn at(endpoint: &str) -> Self {
        Self::with(endpoint, |config| config).await
    }

    /// With tables in this process, of another make than the emulator's; keys and queue are the
    /// emulator's.
    #[cfg(feature = "dynoxide")]
    pub async fn on_dynoxide() -> Self {
        Self::with(&endpoint(), |config| config.http_client(dynoxide::client())).await
    }

    async fn with(endpoint: &str, tables: impl FnOnce(TableConfig) -> TableConfig) -> Self {
        let config = aws_config::defaults(BehaviorVersion::latest())
            .endpoint_url(endpoint)
            .region(Region::new("eu-west-1"))
            .credentials_provider(aws_sdk_dynamodb::config::Credentials::new(
                "test", "test", None, None, "test",
            ))
            .load()
            .await;
        let (db, sqs, kms) = clients(&config, tables(TableConfig::from(&config)));
        let name = format!("test-{:016x}", rand::random::<u64>());
        let table = name.clone();
        let audit_table = format!("{name}-audit");
        let queue_name = format!("{name}-wake");
        let ((), (), queue_url, key) = tokio::join!(
            tables::main(&db, &table),
            tables::audit(&db, &audit_table),
            tables::queue(&sqs, &queue_name),
            tables::key(&kms),
        );
        let store = Store::new(
            db.clone(),
            StoreConfig {
                table: table.clone(),
                audit_table: audit_table.clone(),
            },
        );
        let vault_config = VaultConfig {
            access: Some(key.clone()),
            platform: Some(key.clone()),
            environment: "test".to_owned(),
        };
        Self {
            store,
            vault: Vault::new(kms, vault_config),
            queue: WakeQueue::new(sqs.clone(), queue_url.clone()),
            db,
            table,
            audit_table,
            queue_url,
            key,
            sqs,
        }
    }

    /// Takes the hints that are visible now out of the queue.
    pub async fn hints(&self) -> Vec<WakeMessage> {
        let mut hints = Vec::new();
        loop {
            let output = self
                .sqs
                .receive_message()
                .queue_url(&self.queue_url)
                .max_number_of_messages(10)
                .send()
                .await
                .expect("the queue answers");
            let messages = output.messages.unwrap_or_default();
            if messages.is_empty() {
                return hints;
            }
            for message in messages {
                let body = message.body.expect("a body");
                hints.push(serde_json::from_str(&body).expect("a wake message"));
                self.sqs
                    .delete_message()
                    .queue_url(&self.queue_url)
                    .receipt_handle(message.receipt_handle.expect("a receipt"))
                    .send()
                    .await
                    .expect("the message is deleted");
            }
        }
    }
}

/// The time now, for rows that the code under test compares with its own clock: as far ahead.
pub fn now() -> Millis {
    let since = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    Millis::from_epoch(
        i64::try_from(since.as_millis()).expect("a clock before the year 292 million"),
    )
    .plus(toshi_failpoints::ahead_ms())
}

/// The emulator's address. Anything but loopback stops the test before it touches a table.
pub fn endpoint() -> String {
    let endpoint = setting("AWS_ENDPOINT_URL");
    let host = endpoint
        .strip_prefix("http://")
        .and_then(|rest| rest.split(['/', ':']).next());
    if !matches!(host, Some("127.0.0.1" | "localhost")) {
        panic!(
            "AWS_ENDPOINT_URL is {endpoint:?}, not a loopback address: run this test under \
             `infra/dev.py emulator -- cargo test`, which starts an emulator"
        );
    }
    endpoint
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the tests' own configuration"
)]
fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "this is the tests' wiring")]
fn clients(
    config: &aws_config::SdkConfig,
    tables: TableConfig,
) -> (
    aws_sdk_dynamodb::Client,
    aws_sdk_sqs::Client,
    aws_sdk_kms::Client,
) {
    (
        aws_sdk_dynamodb::Client::from_conf(tables.build()),
        aws_sdk_sqs::Client::new(config),
        aws_sdk_kms::Client::new(config),
    )
}
