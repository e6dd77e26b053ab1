//! One MCP session with one account's server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ClientResult, ElicitResult, ElicitationAction, ErrorCode, ErrorData, Implementation,
    ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerNotification, ServerRequest,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, Service};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use toshi_core::{Canonical, TOOL_TIMEOUT_MS, ToolDefinition, WireFault};

use crate::definitions::{self, Page};
use crate::shot::{Armed, CloseOnDrop, Fault, Shot};
use crate::wire::{CONTROL_WITHIN, QUESTION_WITHIN, Wire};

const CALL_WITHIN: Duration = Duration::from_millis(TOOL_TIMEOUT_MS.unsigned_abs());
/// All pages of a list.
const LIST_WITHIN: Duration = QUESTION_WITHIN;
const PAGES_MAX: usize = 20;
const TOOLS_MAX: usize = 500;

/// How a server speaks. The stateless protocol of 2026-07-28 will be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25 and its forerunners: `initialize` first, then requests in a session.
    Handshake,
}

impl Era {
    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Handshake => ClientLifecycleMode::Initialize,
        }
    }

    fn offered(self) -> ProtocolVersion {
        match self {
            Self::Handshake => ProtocolVersion::V_2025_11_25,
        }
    }

    fn speaks(self, version: &ProtocolVersion) -> bool {
        match self {
            Self::Handshake => [
                ProtocolVersion::V_2025_11_25,
                ProtocolVersion::V_2025_06_18,
                ProtocolVersion::V_2025_03_26,
            ]
            .contains(version),
        }
    }
}

/// Our side of the protocol: declares nothing and declines everything that a server asks for.
#[derive(Debug)]
struct Declines(Era);

impl Service<RoleClient> for Declines {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        match request {
            ServerRequest::PingRequest(_) => Ok(ClientResult::empty(())),
            // An explicit no lets the tool finish by itself; an error might not.
            ServerRequest::ElicitRequest(_) => Ok(ClientResult::ElicitResult(ElicitResult::new(
                ElicitationAction::Decline,
            ))),
            _ => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "not supported",
                None,
            )),
        }
    }

    async fn handle_notification(
        &self,
        _notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let me = Implementation::new("toshi", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), me).with_protocol_version(self.0.offered())
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    service: RunningService<RoleClient, Declines>,
    over: AtomicBool,
}

impl Session {
    /// Shakes hands. Nothing of this can be mistaken for a call.
    pub(crate) async fn open(wire: Wire, era: Era) -> Result<Self, Fault> {
        let config = StreamableHttpClientTransportConfig::with_uri(wire.endpoint().as_str())
            // A lost session must never make the transport send a call again by itself.
            .reinit_on_expired_session(false)
            .control_request_timeout(CONTROL_WITHIN);
        let transport = StreamableHttpClientTransport::with_client(wire.clone(), config);
        let opening = Declines(era).serve_with_lifecycle(transport, era.lifecycle());
        let strange = |what: &str| Fault::from(WireFault::Other(what.to_owned()));
        let service = match timeout(QUESTION_WITHIN, opening).await {
            Ok(Ok(service)) => service,
            Ok(Err(_)) => {
                let seen = wire.handshake_fault();
                return Err(seen.unwrap_or_else(|| strange("the handshake failed")));
            }
            Err(_) => return Err(WireFault::Timeout.into()),
        };
        let known = service
            .peer_info()
            .is_some_and(|info| era.speaks(&info.protocol_version));
        if !known {
            return Err(strange("the server speaks another version of the protocol"));
        }
        Ok(Self {
            service,
            over: AtomicBool::new(false),
        })
    }

    /// Whether it may still be used.
    pub(crate) fn is_alive(&self) -> bool {
        !self.over.load(Ordering::Acquire) && !self.service.is_transport_closed()
    }

    /// Takes it out of use. It stays until it is replaced, so that a last notice can leave.
    pub(crate) fn give_up(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The live list, to its end. Not through `rmcp`'s own helper, which would serve a cached list
    /// when the server fails.
    pub(crate) async fn list(&self) -> Result<Vec<ToolDefinition>, Fault> {
        let deadline = Instant::now() + LIST_WITHIN;
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let mut request = ListToolsRequest::with_param(page);
            let shot = Shot::question();
            request.extensions.insert(shot.clone());
            let result = self
                .ask(ClientRequest::ListToolsRequest(request), &shot, deadline)
                .await?;
            let Page { tools: more, next } = definitions::page(&result)?;
            tools.extend(more);
            if tools.len() > TOOLS_MAX {
                break;
            }
            match next {
                None => return Ok(definitions::unambiguous(tools)),
                same if same == cursor => break,
                next => cursor = next,
            }
        }
        Err(WireFault::Other("the server's list of tools has no end".to_owned()).into())
    }

    /// Sends one call, once.
    pub(crate) async fn call(&self, armed: Armed, arguments: &Canonical) -> Result<Value, Fault> {
        if armed.arguments != *arguments.hash() {
            let why = "the arguments differ from the permitted ones".to_owned();
            return Err(WireFault::NotSent(why).into());
        }
        let params =
            CallToolRequestParams::new(armed.tool.clone()).with_arguments(arguments.object());
        let mut request = CallToolRequest::new(params);
        let shot = Shot::call(armed);
        request.extensions.insert(shot.clone());
        let deadline = Instant::now() + CALL_WITHIN;
        self.ask(ClientRequest::CallToolRequest(request), &shot, deadline)
            .await
    }

    /// Sends one request and waits for what the seam sees of it, until the deadline and not longer,
    /// whatever the server sends meanwhile.
    async fn ask(
        &self,
        request: ClientRequest,
        shot: &Shot,
        deadline: Instant,
    ) -> Result<Value, Fault> {
        let _closing = CloseOnDrop(shot);
        let sending = self
            .service
            .send_request_with_option(request, PeerRequestOptions::default());
        let mut handle = match timeout_at(deadline, sending).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(_)) => return shot.close(WireFault::Cut),
            Err(_) => return shot.close(WireFault::Timeout),
        };
        let news = async {
            tokio::select! {
                biased;
                () = shot.settled() => {}
                // `rmcp` ends the request without an answer that the seam saw: its session is over.
                _ = &mut handle.rx => {}
            }
        };
        if timeout_at(deadline, news).await.is_ok() {
            return shot.close(WireFault::Cut);
        }
        let seen = shot.close(WireFault::Timeout);
        // Queued and not waited for: the server may stop working on what nobody waits for.
        let _ = handle.cancel(Some("timeout".to_owned())).now_or_never();
        seen
    }
}
