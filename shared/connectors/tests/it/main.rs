//! The public surface, against the scripted server.
#![cfg(test)]

#[expect(dead_code, reason = "shared with the unit tests")]
mod server;

use server::Server;
use toshi_connectors::{AccessToken, ConfigError, Guard, Outbound, Target, Tools, ToolsConfig};
use toshi_core::{
    Catalogue, ConnectionRow, ConnectionStatus, Millis, Role, Sharing, TenantId, WireFault,
    WriteMode,
};

fn tools(dev: bool, endpoint: Option<String>) -> Result<Tools, ConfigError> {
    let outbound = Outbound::new(Guard::new(dev)).unwrap();
    let enabled: &[&str] = if dev { &["demo"] } else { &[] };
    let catalogue = Catalogue::load(enabled, dev).unwrap();
    Tools::new(
        outbound,
        catalogue,
        ToolsConfig {
            dev,
            demo_endpoint: endpoint,
        },
    )
}

fn row(connector: &str) -> ConnectionRow {
    ConnectionRow {
        connection: "demo-1".parse().unwrap(),
        connector: connector.to_owned(),
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

fn token() -> AccessToken {
    AccessToken {
        version: 1,
        secret: "token".into(),
    }
}

#[test]
fn a_demo_server_outside_development_or_off_this_machine_stops_the_start() {
    let local = || Some("http://127.0.0.1:9/mcp".to_owned());
    assert!(matches!(
        tools(false, local()),
        Err(ConfigError::DemoOutsideDev)
    ));
    let elsewhere = Some("http://10.0.0.1/mcp".to_owned());
    assert!(matches!(
        tools(true, elsewhere),
        Err(ConfigError::DemoEndpoint(..))
    ));
    assert!(tools(true, local()).is_ok());
    assert!(tools(false, None).is_ok());
}

#[tokio::test]
async fn a_schools_requests_go_to_its_own_address_in_its_own_session() {
    let server = Server::start().await;
    let tools = tools(true, Some(format!("{}/", server.url()))).unwrap();
    let (row, token) = (row("demo"), token());
    for school in ["lakeside", "hilltop", "lakeside"] {
        let tenant = TenantId::from_stored(school).unwrap();
        let target = Target {
            tenant: &tenant,
            connection: &row,
            token: &token,
        };
        let prepared = tools.prepare(&target, "post_message").await.unwrap();
        assert_eq!(prepared.live.unwrap().name, "post_message");
    }
    let lists = server.seen("tools/list");
    let used: Vec<_> = lists
        .iter()
        .map(|seen| (seen.path.as_str(), seen.headers["mcp-session-id"].as_str()))
        .collect();
    assert_eq!(
        used,
        [
            ("/mcp/lakeside", "session-1"),
            ("/mcp/hilltop", "session-2"),
            ("/mcp/lakeside", "session-1")
        ]
    );
}

#[tokio::test]
async fn a_connector_that_is_off_or_has_no_address_is_not_called() {
    let server = Server::start().await;
    let tools = tools(true, Some(server.url())).unwrap();
    let tenant = TenantId::from_stored("lakeside").unwrap();
    let (row, token) = (row("slack"), token());
    let target = Target {
        tenant: &tenant,
        connection: &row,
        token: &token,
    };
    assert!(matches!(
        tools.list(&target).await,
        Err(WireFault::NotSent(_))
    ));
    assert!(server.all_seen().is_empty());
}
