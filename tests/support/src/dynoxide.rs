//! DynamoDB of another make, on SQLite in this process: what two of them agree on is less likely to
//! be one's own fault.

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What an SDK client sends through this is answered by a database of its own, without a socket.
pub(crate) fn client() -> SharedHttpClient {
    let database = Database::memory().expect("a database in memory");
    let connector = SharedHttpConnector::new(InProcess(database));
    http_client_fn(move |_, _| connector.clone())
}

struct InProcess(Database);

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InProcess")
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        let body = request.body().bytes().expect("a body in memory");
        let (status, text) = match answer(&self.0, operation, body) {
            Ok(text) => (200, text),
            Err(error) => (error.status_code(), error.to_json()),
        };
        let status = status.try_into().expect("a status");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, text.into())))
    }
}

/// The operations that the store and its tests use. Anything else is refused as a service refuses an
/// operation that it does not know.
fn answer(database: &Database, operation: &str, body: &[u8]) -> Result<String, DynoxideError> {
    match operation {
        "CreateTable" => told(&database.create_table(asked(body)?)?),
        "PutItem" => told(&database.put_item(asked(body)?)?),
        "GetItem" => told(&database.get_item(asked(body)?)?),
        "DeleteItem" => told(&database.delete_item(asked(body)?)?),
        "UpdateItem" => told(&database.update_item(asked(body)?)?),
        "BatchGetItem" => told(&database.batch_get_item(asked(body)?)?),
        "Query" => told(&database.query(asked(body)?)?),
        "Scan" => told(&database.scan(asked(body)?)?),
        "TransactWriteItems" => told(&database.transact_write_items(asked(body)?)?),
        other => Err(DynoxideError::SerializationException(format!(
            "no operation {other:?} here"
        ))),
    }
}

fn asked<T: DeserializeOwned>(body: &[u8]) -> Result<T, DynoxideError> {
    serde_json::from_slice(body)
        .map_err(|error| DynoxideError::SerializationException(error.to_string()))
}

fn told(answer: &impl Serialize) -> Result<String, DynoxideError> {
    serde_json::to_string(answer)
        .map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}
