//! One account's server, as it is spoken with: after a handshake, or request by request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ClientResult, DiscoverRequest, DiscoverRequestParams, DiscoverResult, ElicitResult,
    ElicitationAction, ErrorCode, ErrorData, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerNotification,
    ServerPeerInfo, ServerRequest,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RunningService, serve_directly,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, Service};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toshi_core::{Canonical, Era, TOOL_TIMEOUT_MS, ToolDefinition, WireFault};

use crate::definitions::{self, Page};
use crate::headers::{self, Repeated};
use crate::opening::refuses_to_open;
use crate::shot::{Armed, CloseOnDrop, Fault, Shot};
use crate::wire::{CONTROL_WITHIN, OWN_NAME, OWN_VERSION, QUESTION_WITHIN, Wire};

const CALL_WITHIN: Duration = Duration::from_millis(TOOL_TIMEOUT_MS.unsigned_abs());
/// All pages of a list.
const LIST_WITHIN: Duration = QUESTION_WITHIN;
const PAGES_MAX: usize = 20;
const TOOLS_MAX: usize = 500;

/// The version that is offered to a server of an era.
fn offered(era: Era) -> ProtocolVersion {
    match era {
        Era::Handshake => ProtocolVersion::V_2025_11_25,
        Era::Stateless => ProtocolVersion::V_2026_07_28,
    }
}

/// Whether a version that a server chose in its handshake is one of ours.
fn shakes_hands(version: &ProtocolVersion) -> bool {
    [
        ProtocolVersion::V_2025_11_25,
        ProtocolVersion::V_2025_06_18,
        ProtocolVersion::V_2025_03_26,
    ]
    .contains(version)
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
        let me = Implementation::new(OWN_NAME, OWN_VERSION);
        ClientConfig::new(ClientCapabilities::default(), me).with_protocol_version(offered(self.0))
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    service: RunningService<RoleClient, Declines>,
    era: Era,
    over: AtomicBool,
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) struct NotOpened {
    pub(crate) fault: Fault,
    /// The server answered as one that does not speak this era.
    pub(crate) other_era: bool,
}

impl NotOpened {
    fn because(fault: Fault, era: Era) -> Self {
        let other_era = refuses_to_open(&fault.wire, era);
        Self { fault, other_era }
    }

    fn names_versions(&self) -> bool {
        matches!(&self.fault.wire, WireFault::Rpc { code, .. } if *code == UNSUPPORTED_VERSION)
    }

    fn other_version() -> Self {
        let what = "the server speaks another version of the protocol".to_owned();
        Self {
            fault: WireFault::Other(what).into(),
            other_era: true,
        }
    }
}

const UNSUPPORTED_VERSION: i64 = -32022;

impl Session {
    /// Nothing of this can be mistaken for a call.
    pub(crate) async fn open(wire: Wire, era: Era, within: Duration) -> Result<Self, NotOpened> {
        let config = StreamableHttpClientTransportConfig::with_uri(wire.endpoint().as_str())
            // A lost session must never make the transport send a call again by itself.
            .reinit_on_expired_session(false)
            .control_request_timeout(CONTROL_WITHIN);
        let transport = || StreamableHttpClientTransport::with_client(wire.clone(), config.clone());
        let deadline = Instant::now() + within;
        match era {
            Era::Handshake => Self::shake_hands(&wire, transport(), deadline).await,
            Era::Stateless => match Self::discover(transport(), deadline).await {
                // A client may choose again among the versions that such a refusal names. There is
                // one to choose, which a server that is being replaced may know the second time.
                Err(not) if not.names_versions() => Self::discover(transport(), deadline).await,
                opened => opened,
            },
        }
    }

    fn over(service: RunningService<RoleClient, Declines>, era: Era) -> Self {
        Self {
            service,
            era,
            over: AtomicBool::new(false),
        }
    }

    async fn shake_hands(
        wire: &Wire,
        transport: StreamableHttpClientTransport<Wire>,
        deadline: Instant,
    ) -> Result<Self, NotOpened> {
        let era = Era::Handshake;
        let lifecycle = ClientLifecycleMode::Initialize;
        let opening = Declines(era).serve_with_lifecycle(transport, lifecycle);
        let service = match timeout_at(deadline, opening).await {
            Ok(Ok(service)) => service,
            Ok(Err(_)) => {
                let strange = || WireFault::Other("the handshake failed".to_owned()).into();
                let seen = wire.handshake_fault();
                return Err(NotOpened::because(seen.unwrap_or_else(strange), era));
            }
            Err(_) => return Err(NotOpened::because(WireFault::Timeout.into(), era)),
        };
        let chosen = service.peer_info();
        if !chosen.is_some_and(|info| shakes_hands(&info.protocol_version)) {
            return Err(NotOpened::other_version());
        }
        Ok(Self::over(service, era))
    }

    /// Asks what the server speaks. Not by `rmcp`'s own discovery: through a shot the seam also sees an
    /// answer that comes as an event, and a refusal is known from what was seen of it.
    async fn discover(
        transport: StreamableHttpClientTransport<Wire>,
        deadline: Instant,
    ) -> Result<Self, NotOpened> {
        let era = Era::Stateless;
        let version = offered(era);
        let expected = DiscoverResult::new(vec![version.clone()], ServerCapabilities::default());
        let server = ServerPeerInfo::from_discover_result(version.clone(), expected);
        let service = serve_directly(Declines(era), transport, Some(server));
        let session = Self::over(service, era);
        let found = session.ask_to_discover(deadline).await;
        let result = found.map_err(|fault| NotOpened::because(fault, era))?;
        let versions = result.get("supportedVersions").and_then(Value::as_array);
        let speaks = versions
            .into_iter()
            .flatten()
            .any(|other| other.as_str() == Some(version.as_str()));
        if speaks {
            Ok(session)
        } else {
            Err(NotOpened::other_version())
        }
    }

    async fn ask_to_discover(&self, deadline: Instant) -> Result<Value, Fault> {
        let mut request = DiscoverRequest::new(DiscoverRequestParams {});
        let shot = Shot::question();
        request.extensions.insert(shot.clone());
        self.ask(ClientRequest::DiscoverRequest(request), &shot, deadline)
            .await
    }

    pub(crate) fn era(&self) -> Era {
        self.era
    }

    /// Which arguments of a call its headers repeat: in the older protocol none.
    pub(crate) fn repeated(&self, tool: &ToolDefinition) -> Result<Vec<Repeated>, WireFault> {
        match self.era {
            Era::Handshake => Ok(Vec::new()),
            Era::Stateless => headers::repeated(&tool.input_schema)
                .map_err(|why| WireFault::NotSent(why.to_owned())),
        }
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
                None => {
                    let tools = definitions::unambiguous(tools);
                    return Ok(match self.era {
                        Era::Handshake => tools,
                        Era::Stateless => definitions::repeatable(tools),
                    });
                }
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
