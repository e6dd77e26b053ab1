//! The way to a tool.

use std::fmt;
use std::sync::Arc;

use reqwest::Url;
use secrecy::SecretString;
use serde_json::Value;
use toshi_core::{
    Access, Canonical, Catalogue, ConnectionId, ConnectionRow, Connector, Era, EraRule, TenantId,
    ToolDefinition, Transport, WireFault,
};
use toshi_store::Permit;

use crate::answer::{CallReport, ToolAnswer};
use crate::guard::{ConfigError, Outbound};
use crate::kept::{Found, Kept, Key};
use crate::opening;
use crate::redact::Redact;
use crate::session::Session;
use crate::shot::{Armed, Fault, Lease};
use crate::wire::Wire;

const DEMO: &str = "demo";

/// What a deployment says about connectors.
#[derive(Clone, Debug, Default)]
pub struct ToolsConfig {
    /// `TOSHI_DEV`.
    pub dev: bool,
    /// The demo server's address without the tenant, which becomes its last path segment.
    pub demo_endpoint: Option<String>,
}

/// A token and the version of its row, as it was read for this call.
#[derive(Clone, Debug)]
pub struct AccessToken {
    pub version: u64,
    pub secret: SecretString,
}

/// Whose tools are meant.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub tenant: &'a TenantId,
    pub connection: &'a ConnectionRow,
    pub token: &'a AccessToken,
}

impl Target<'_> {
    fn key(&self) -> Key {
        Key {
            tenant: self.tenant.clone(),
            connection: self.connection.connection.clone(),
            account: self.connection.account.clone(),
            token_version: self.token.version,
        }
    }
}

/// One per process: the client, the catalogue and the kept sessions.
pub struct Tools {
    outbound: Outbound,
    catalogue: Catalogue,
    demo: Option<Url>,
    kept: Kept,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools")
            .field("demo", &self.demo)
            .finish_non_exhaustive()
    }
}

/// A session that has just shown the live list, to be used for one call.
pub struct Prepared {
    /// The tool as the server defines it now. `None`: it offers no such tool, or none that is
    /// unambiguous.
    pub live: Option<ToolDefinition>,
    session: Arc<Session>,
    account: Account,
    token: SecretString,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

/// What a permit and a session must agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    tenant: TenantId,
    connection: ConnectionId,
    account: String,
}

impl Account {
    fn of(target: &Target<'_>) -> Self {
        Self {
            tenant: target.tenant.clone(),
            connection: target.connection.connection.clone(),
            account: target.connection.account.clone(),
        }
    }

    fn check(&self, permit: &Permit) -> Result<(), Fault> {
        let same = permit.tenant() == &self.tenant
            && permit.connection() == &self.connection
            && permit.account() == self.account;
        if same {
            Ok(())
        } else {
            Err(WireFault::NotSent("the permit is for another account".to_owned()).into())
        }
    }
}

impl Tools {
    pub fn new(
        outbound: Outbound,
        catalogue: Catalogue,
        config: ToolsConfig,
    ) -> Result<Self, ConfigError> {
        let demo = match config.demo_endpoint {
            None => None,
            Some(_) if !config.dev => return Err(ConfigError::DemoOutsideDev),
            Some(address) => match outbound.guard().check(&address) {
                Ok(url) => Some(url),
                Err(why) => return Err(ConfigError::DemoEndpoint(address, why.to_string())),
            },
        };
        Ok(Self {
            outbound,
            catalogue,
            demo,
            kept: Kept::default(),
        })
    }

    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The live list, to its end and from no cache.
    pub async fn list(&self, target: &Target<'_>) -> Result<Vec<ToolDefinition>, WireFault> {
        let redact = Redact(&target.token.secret);
        match self.listed(target).await {
            Ok((_, tools)) => Ok(tools
                .into_iter()
                .map(|tool| redact.definition(tool))
                .collect()),
            Err(fault) => Err(redact.fault(fault.wire)),
        }
    }

    /// The check before a claim: opens the session that the call will use, or takes the kept one, and
    /// asks it for the tool as it is now. It also proves token and session, outside the time in which
    /// a call may have been sent.
    pub async fn prepare(&self, target: &Target<'_>, tool: &str) -> Result<Prepared, WireFault> {
        let redact = Redact(&target.token.secret);
        let (session, tools) = self
            .listed(target)
            .await
            .map_err(|fault| redact.fault(fault.wire))?;
        let live = tools.into_iter().find(|live| live.name == tool);
        Ok(Prepared {
            live: live.map(|live| redact.definition(live)),
            session,
            account: Account::of(target),
            token: target.token.secret.clone(),
        })
    }

    /// Sends one call on the prepared session: one POST at most, which nothing sends again.
    pub async fn call(
        &self,
        prepared: Prepared,
        permit: Permit,
        arguments: &Canonical,
    ) -> CallReport {
        let Prepared {
            live,
            session,
            account,
            token,
        } = prepared;
        let armed = account.check(&permit).and_then(|()| {
            let gone = || WireFault::NotSent("the server has no such tool".to_owned());
            let tool = live.ok_or_else(gone)?;
            Ok(Armed::with(permit, session.repeated(&tool)?))
        });
        let seen = match armed {
            Ok(armed) => send(&session, armed, arguments).await,
            Err(fault) => Err(fault),
        };
        report(seen, &token)
    }

    /// How the connection's server speaks, where that was found out and its row does not say so.
    pub fn learned(&self, target: &Target<'_>) -> Option<Era> {
        let connector = self.connector(target).ok()?;
        let era = self.kept.era(&target.key())?;
        let is_news = rule(connector).fixed().is_none() && target.connection.era != Some(era);
        is_news.then_some(era)
    }

    /// Sends a read of a reviewed tool on a kept or a new session.
    ///
    /// If the server has lost the session, or now speaks the other protocol, it is opened again and the
    /// read is sent once more. That needs no second permit: the server refused the first before running
    /// it, a read changes nothing, and it is the same read of the same account.
    pub async fn read(
        &self,
        target: &Target<'_>,
        permit: Permit,
        tool: &ToolDefinition,
        arguments: &Canonical,
    ) -> CallReport {
        let same = Account::of(target).check(&permit);
        let seen = match (same, permit.access()) {
            (Err(fault), Access::Read | Access::Write) => Err(fault),
            (Ok(()), Access::Read) if permit.tool() == tool.name => {
                self.read_twice(target, tool, arguments, permit.arguments())
                    .await
            }
            (Ok(()), Access::Read) => {
                let why = "the permit is for another tool".to_owned();
                Err(WireFault::NotSent(why).into())
            }
            (Ok(()), Access::Write) => {
                let why = "a change is not sent as a read".to_owned();
                Err(WireFault::NotSent(why).into())
            }
        };
        report(seen, &target.token.secret)
    }

    async fn read_twice(
        &self,
        target: &Target<'_>,
        tool: &ToolDefinition,
        arguments: &Canonical,
        hash: &toshi_core::Sha256Hex,
    ) -> Result<Value, Fault> {
        let armed = |session: &Session| {
            Ok::<_, Fault>(Armed {
                tool: tool.name.clone(),
                arguments: hash.clone(),
                repeated: session.repeated(tool)?,
                lease: Lease::None,
            })
        };
        let Found { session, kept } = self.session(target).await?;
        let fault = match send(&session, armed(&session)?, arguments).await {
            Ok(answer) => return Ok(answer),
            Err(fault) => fault,
        };
        let has_changed = kept && opening::refuses(&fault.wire, session.era());
        if !has_changed && !is_lost_session(&fault.wire) {
            return Err(fault);
        }
        let Found { session, .. } = self.session(target).await?;
        send(&session, armed(&session)?, arguments).await
    }

    /// A session and its list. A session that the server has lost is opened again, once; so is a kept
    /// one whose connection had gone, or whose server now speaks otherwise.
    async fn listed(
        &self,
        target: &Target<'_>,
    ) -> Result<(Arc<Session>, Vec<ToolDefinition>), Fault> {
        let Found { session, kept } = self.session(target).await?;
        let fault = match session.list().await {
            Ok(tools) => return Ok((session, tools)),
            Err(fault) => fault,
        };
        session.give_up();
        let was_gone = matches!(fault.wire, WireFault::Cut | WireFault::NotSent(_));
        let has_changed = kept && (was_gone || opening::refuses(&fault.wire, session.era()));
        if !has_changed && !is_lost_session(&fault.wire) {
            return Err(fault);
        }
        let Found { session, .. } = self.session(target).await?;
        match session.list().await {
            Ok(tools) => Ok((session, tools)),
            Err(fault) => {
                session.give_up();
                Err(fault)
            }
        }
    }

    async fn session(&self, target: &Target<'_>) -> Result<Found, Fault> {
        let connector = self.connector(target)?;
        let endpoint = self.endpoint(target, connector)?;
        let wire = |era| {
            let client = self.outbound.client().clone();
            Wire::new(client, endpoint.clone(), target.token.secret.clone(), era)
        };
        let open = |last: Option<Era>| {
            opening::open(wire, rule(connector), last.or(target.connection.era))
        };
        self.kept.get(&target.key(), open).await
    }

    fn connector(&self, target: &Target<'_>) -> Result<&Connector, WireFault> {
        let connector = self.catalogue.get(&target.connection.connector);
        connector.ok_or_else(|| nowhere("this tool is not available here"))
    }

    /// Where the connection's server is: the one place that decides it.
    fn endpoint(&self, target: &Target<'_>, connector: &Connector) -> Result<Url, WireFault> {
        let base = match connector.transport {
            Transport::McpHttp if connector.key == DEMO => self.demo.as_ref(),
            Transport::McpHttp | Transport::InProcess => None,
        };
        let Some(base) = base else {
            return Err(nowhere("this tool's server has no address here"));
        };
        let address = format!("{}/{}", base.as_str().trim_end_matches('/'), target.tenant);
        match self.outbound.guard().check(&address) {
            Ok(url) => Ok(url),
            Err(why) => Err(nowhere(&why.to_string())),
        }
    }
}

fn nowhere(why: &str) -> WireFault {
    WireFault::NotSent(why.to_owned())
}

/// A type without a rule has no server over HTTP, and is not reached.
fn rule(connector: &Connector) -> EraRule {
    connector.era.unwrap_or(EraRule::Auto)
}

/// Sends, and takes the session out of use after anything but an answer from the server's protocol.
async fn send(session: &Session, armed: Armed, arguments: &Canonical) -> Result<Value, Fault> {
    let seen = session.call(armed, arguments).await;
    if let Err(fault) = &seen
        && (is_lost_session(&fault.wire)
            || opening::refuses(&fault.wire, session.era())
            || !matches!(fault.wire, WireFault::Rpc { .. }))
    {
        session.give_up();
    }
    seen
}

/// What is told of a call, without the token that the server may have quoted.
fn report(seen: Result<Value, Fault>, token: &SecretString) -> CallReport {
    let (result, challenged) = match seen {
        Ok(result) => (ToolAnswer::read(&result), false),
        Err(Fault { wire, challenged }) => (Err(wire), challenged),
    };
    let redact = Redact(token);
    CallReport {
        result: match result {
            Ok(answer) => Ok(redact.answer(answer)),
            Err(fault) => Err(redact.fault(fault)),
        },
        challenged,
    }
}

/// Whether the server no longer knows the session: by the specification 404; in practice also 400, or
/// an error that speaks of the session. Only asked for what may be sent again.
fn is_lost_session(fault: &WireFault) -> bool {
    match fault {
        WireFault::HttpStatus {
            status: 400 | 404,
            session,
        } => *session,
        WireFault::Rpc { message, .. } => message.to_ascii_lowercase().contains("session"),
        WireFault::HttpStatus { .. }
        | WireFault::NotSent(_)
        | WireFault::Timeout
        | WireFault::Cut
        | WireFault::TooLarge
        | WireFault::Unfinished(_)
        | WireFault::Other(_) => false,
    }
}

#[cfg(test)]
#[path = "tools_tests/mod.rs"]
mod tests;
