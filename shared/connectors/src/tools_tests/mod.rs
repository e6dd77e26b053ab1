//! The way to a tool, against a server that does what it should not.

mod bytes;
mod eras;
mod matrix;
mod seam;
mod sessions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest};
use rmcp::model::{NumberOrString, PingRequest};
use rmcp::transport::streamable_http_client::StreamableHttpClient;
use serde_json::json;
use toshi_core::{ConnectionStatus, Outcome, Sharing, TOOL_BODY_MAX, TOOL_TIMEOUT_MS, WriteMode};
use toshi_core::{Millis, Role};

use super::*;
use crate::guard::Guard;
use crate::settle;
use crate::shot::Shot;

#[path = "../../tests/it/server.rs"]
mod server;
use server::{Part, Reply, Server, Speaks, event, http, json_reply, tool};

const TOKEN: &str = "canary-token";

struct Bench {
    server: Server,
    tools: Tools,
    tenant: TenantId,
    row: ConnectionRow,
    token: AccessToken,
}

impl Bench {
    /// At a server with sessions, which is known to be one.
    async fn new() -> Self {
        Self::at(Speaks::Sessions, Some(Era::Handshake)).await
    }

    async fn at(speaks: Speaks, known: Option<Era>) -> Self {
        let server = Server::start().await;
        server.speak(speaks);
        let tools = tools_at(server.url());
        Self {
            server,
            tools,
            tenant: TenantId::from_stored("lakeside").unwrap(),
            row: ConnectionRow {
                era: known,
                ..row()
            },
            token: AccessToken {
                version: 1,
                secret: TOKEN.into(),
            },
        }
    }

    fn target(&self) -> Target<'_> {
        Target {
            tenant: &self.tenant,
            connection: &self.row,
            token: &self.token,
        }
    }

    /// Prepares and sends as for a claimed write.
    async fn write(&self) -> Result<Value, Fault> {
        self.send(self.prepare().await).await
    }

    async fn prepare(&self) -> Prepared {
        let prepared = self.tools.prepare(&self.target(), "post_message").await;
        prepared.unwrap()
    }

    /// As [`Tools::call`], with a permit that only tests have.
    async fn send(&self, prepared: Prepared) -> Result<Value, Fault> {
        let arguments = arguments();
        let tool = prepared.live.unwrap();
        let armed = Armed {
            repeated: prepared.session.repeated(&tool)?,
            ..armed(&arguments, true)
        };
        send(&prepared.session, armed, &arguments).await
    }

    async fn read(&self) -> Result<Value, Fault> {
        self.read_as(&reviewed()).await
    }

    async fn read_as(&self, tool: &ToolDefinition) -> Result<Value, Fault> {
        let arguments = arguments();
        self.tools
            .read_twice(&self.target(), tool, &arguments, arguments.hash())
            .await
    }

    fn calls(&self) -> usize {
        self.server.seen("tools/call").len()
    }

    fn wire(&self, era: Era) -> Wire {
        let endpoint = self.server.url().parse().unwrap();
        let client = self.tools.outbound.client().clone();
        Wire::new(client, endpoint, self.token.secret.clone(), era)
    }
}

/// The tool as a person reviewed it.
fn reviewed() -> ToolDefinition {
    let listed = json!({"tools": [tool("post_message")]});
    crate::definitions::page(&listed).unwrap().tools.remove(0)
}

fn tools_at(endpoint: String) -> Tools {
    let outbound = Outbound::new(Guard::new(true)).unwrap();
    let catalogue = Catalogue::load(&["demo"], true).unwrap();
    Tools::new(
        outbound,
        catalogue,
        ToolsConfig {
            dev: true,
            demo_endpoint: Some(endpoint),
        },
    )
    .unwrap()
}

fn row() -> ConnectionRow {
    ConnectionRow {
        connection: "demo-1".parse().unwrap(),
        connector: "demo".to_owned(),
        status: ConnectionStatus::Active,
        usable: true,
        sharing: Sharing::TenantShared,
        owner: None,
        roles: vec![Role::Admin],
        account: "account-1".to_owned(),
        account_name: "Workspace".to_owned(),
        write_mode: WriteMode::All,
        tool_allowlist: None,
        tool_denylist: vec![],
        epoch: 1,
        connected_at: Millis::from_epoch(0),
        era: None,
    }
}

fn arguments() -> Canonical {
    Canonical::parse(r##"{"channel":"#staff","text":"hi","n":1e21}"##).unwrap()
}

fn armed(arguments: &Canonical, in_time: bool) -> Armed {
    Armed {
        tool: "post_message".to_owned(),
        arguments: arguments.hash().clone(),
        repeated: Vec::new(),
        lease: Lease::Fixed(in_time),
    }
}

fn message(tool: &str, arguments: Value, shot: Option<&Shot>) -> ClientJsonRpcMessage {
    let params = CallToolRequestParams::new(tool.to_owned())
        .with_arguments(arguments.as_object().unwrap().clone());
    let mut request = CallToolRequest::new(params);
    if let Some(shot) = shot {
        request.extensions.insert(shot.clone());
    }
    ClientJsonRpcMessage::request(
        ClientRequest::CallToolRequest(request),
        NumberOrString::Number(1),
    )
}

async fn post(wire: &Wire, message: ClientJsonRpcMessage) -> bool {
    let uri = Arc::from("http://elsewhere.example/");
    wire.post_message(uri, message, None, Some("other".to_owned()), HashMap::new())
        .await
        .is_ok()
}

fn fault(seen: Result<Value, Fault>) -> WireFault {
    seen.unwrap_err().wire
}

fn text(seen: Result<Value, Fault>) -> String {
    told(seen).result.unwrap().text
}

fn told(seen: Result<Value, Fault>) -> CallReport {
    report(seen, &TOKEN.into())
}

fn rpc_error(status: u16, code: i64, message: &str) -> Reply {
    let error = json!({"code": code, "message": message});
    json_reply(
        status,
        &json!({"jsonrpc": "2.0", "id": null, "error": error}),
    )
}

fn words(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded { .. } => "succeeded",
        Outcome::ReportedError { .. } => "reported an error",
        Outcome::Refused { .. } => "refused",
        Outcome::NotSent { .. } => "not sent",
        Outcome::Unknown { .. } => "unknown",
    }
}
