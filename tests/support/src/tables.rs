//! The tables as the template defines them.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};

pub(crate) async fn main(db: &Client, name: &str) {
    create(db, name, "due", ("G1PK", "G1SK"), ProjectionType::KeysOnly).await;
}

pub(crate) async fn audit(db: &Client, name: &str) {
    create(db, name, "day", ("DAY", "AT"), ProjectionType::All).await;
}

async fn create(
    db: &Client,
    name: &str,
    index: &str,
    index_keys: (&str, &str),
    projected: ProjectionType,
) {
    let attribute = |name: &str| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .expect("an attribute")
    };
    let key = |name: &str, kind: KeyType| {
        KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(kind)
            .build()
            .expect("a key")
    };
    let (hash, range) = index_keys;
    let index = GlobalSecondaryIndex::builder()
        .index_name(index)
        .key_schema(key(hash, KeyType::Hash))
        .key_schema(key(range, KeyType::Range))
        .projection(Projection::builder().projection_type(projected).build())
        .build()
        .expect("an index");
    db.create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(["PK", "SK", hash, range].map(attribute).to_vec()))
        .key_schema(key("PK", KeyType::Hash))
        .key_schema(key("SK", KeyType::Range))
        .global_secondary_indexes(index)
        .send()
        .await
        .expect("the table is created");
}

pub(crate) async fn queue(sqs: &aws_sdk_sqs::Client, name: &str) -> String {
    let created = sqs
        .create_queue()
        .queue_name(name)
        .send()
        .await
        .expect("the queue is created");
    created.queue_url.expect("a queue has an address")
}

pub(crate) async fn key(kms: &aws_sdk_kms::Client) -> String {
    let created = kms.create_key().send().await.expect("the key is created");
    created.key_metadata.expect("a key has metadata").key_id
}
