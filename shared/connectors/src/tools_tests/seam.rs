//! What leaves, and what is known of it.

use super::*;

#[tokio::test]
async fn a_call_is_one_post_with_our_token_and_the_approved_arguments() {
    let bench = Bench::new().await;
    assert_eq!(text(bench.write().await), "done 1");
    let calls = bench.server.seen("tools/call");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].path, "/mcp/lakeside");
    assert_eq!(calls[0].headers["authorization"], "Bearer canary-token");
    assert_eq!(calls[0].headers["mcp-session-id"], "session-1");
    assert_eq!(calls[0].headers["mcp-protocol-version"], "2025-11-25");
    let sent = Canonical::of(&calls[0].body["params"]["arguments"]).unwrap();
    assert_eq!(sent, arguments());
    // No stream besides, and nothing declared.
    assert!(
        bench
            .server
            .all_seen()
            .iter()
            .all(|seen| seen.http == "POST")
    );
    let hello = bench.server.seen("initialize");
    assert_eq!(hello[0].body["params"]["capabilities"], json!({}));
    assert_eq!(hello[0].body["params"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn a_second_post_of_the_same_call_is_refused_and_changes_nothing() {
    let bench = Bench::new().await;
    let wire = bench.wire(Era::Handshake);
    let arguments = arguments();
    let shot = Shot::call(armed(&arguments, true));
    let call = message("post_message", arguments.value(), Some(&shot));
    // While the first is under way, and after it.
    bench.server.once(
        "tools/call",
        Reply::Events {
            parts: vec![
                Part::Answers(1),
                event(&json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}})),
            ],
            finish: true,
        },
    );
    let first = async {
        let uri = Arc::from("");
        wire.post_message(uri, call.clone(), None, None, HashMap::new())
            .await
            .unwrap()
    };
    let second = async {
        bench.server.saw("tools/call", 1).await;
        let refused = !post(&wire, call.clone()).await;
        let answer = ClientJsonRpcMessage::response(
            rmcp::model::ClientResult::empty(()),
            NumberOrString::Number(9),
        );
        assert!(post(&wire, answer).await);
        refused
    };
    let (events, refused) = tokio::join!(first, second);
    assert!(refused);
    let rmcp::transport::streamable_http_client::StreamableHttpPostResponse::Sse(events, _) =
        events
    else {
        panic!("events");
    };
    let _: Vec<_> = futures::StreamExt::collect(events).await;
    assert_eq!(shot.close(WireFault::Cut), Ok(json!({"content": []})));
    assert!(!post(&wire, call).await);
    assert_eq!(bench.calls(), 1);
}

#[tokio::test]
async fn only_exactly_what_was_permitted_leaves() {
    let bench = Bench::new().await;
    let wire = bench.wire(Era::Handshake);
    let permitted = arguments();
    let shot = |in_time| Shot::call(armed(&permitted, in_time));
    let value = permitted.value();
    let mut more = value.clone();
    more["cc"] = json!("everyone");
    let rows = [
        (
            "other arguments",
            shot(true),
            "post_message",
            json!({"text": "hi"}),
        ),
        ("one argument more", shot(true), "post_message", more),
        ("another tool", shot(true), "delete_channel", value.clone()),
        ("too late", shot(false), "post_message", value.clone()),
        (
            "a question's shot",
            Shot::question(),
            "post_message",
            value.clone(),
        ),
    ];
    for (name, shot, tool, arguments) in rows {
        assert!(
            !post(&wire, message(tool, arguments, Some(&shot))).await,
            "{name}"
        );
        let seen = shot.close(WireFault::Cut);
        assert!(matches!(fault(seen), WireFault::NotSent(_)), "{name}");
    }
    let shot_for_more = shot(true);
    let mut with_state = message("post_message", value.clone(), Some(&shot_for_more));
    if let ClientJsonRpcMessage::Request(request) = &mut with_state
        && let ClientRequest::CallToolRequest(call) = &mut request.request
    {
        call.params.request_state = Some("from the server".to_owned());
    }
    assert!(
        !post(&wire, with_state).await,
        "something besides the arguments"
    );
    assert!(
        !post(&wire, message("post_message", value, None)).await,
        "no shot at all"
    );
    let ping = ClientRequest::PingRequest(PingRequest::default());
    let ping = ClientJsonRpcMessage::request(ping, NumberOrString::Number(1));
    assert!(!post(&wire, ping).await, "a kind that is never sent");
    assert_eq!(bench.server.all_seen().len(), 0);
}

#[tokio::test]
async fn a_call_that_was_given_up_before_the_network_can_no_longer_be_sent() {
    let bench = Bench::new().await;
    let arguments = arguments();
    let shot = Shot::call(armed(&arguments, true));
    assert!(matches!(
        fault(shot.close(WireFault::Timeout)),
        WireFault::NotSent(_)
    ));
    assert!(
        !post(
            &bench.wire(Era::Handshake),
            message("post_message", arguments.value(), Some(&shot))
        )
        .await
    );
    assert_eq!(bench.calls(), 0);
}

#[tokio::test]
async fn each_fault_of_a_call_is_known_from_what_was_seen_and_nothing_is_sent_twice() {
    let answer = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
    let status = |status| WireFault::HttpStatus {
        status,
        session: true,
    };
    let rpc = |code, status, message: &str| WireFault::Rpc {
        code,
        message: message.into(),
        status,
    };
    let large = "x".repeat(TOOL_BODY_MAX);
    let events = |parts, finish| Reply::Events { parts, finish };
    let pieces = || {
        (0..40)
            .map(|_| Part::Text(format!(": {}\n", "x".repeat(40_000))))
            .collect()
    };
    let redirect = Reply::Http {
        status: 307,
        headers: vec![("location", "/mcp/hilltop".to_owned())],
        body: vec![],
    };
    let rows = [
        ("commits, then ends", Reply::Cut, WireFault::Cut),
        ("lost session", http(404, ""), status(404)),
        (
            "lost session, said in JSON",
            rpc_error(404, -32001, "Session not found"),
            status(404),
        ),
        ("refused", http(400, "no"), status(400)),
        ("forbidden", rpc_error(403, -32000, "no"), status(403)),
        ("too many", rpc_error(429, -32000, "later"), status(429)),
        (
            "invalid",
            rpc_error(200, -32602, "bad"),
            rpc(-32602, 200, "bad"),
        ),
        (
            "modern",
            rpc_error(400, -32022, "version"),
            rpc(-32022, 400, "version"),
        ),
        ("broken", http(502, "<html>"), status(502)),
        (
            "broken, in JSON",
            rpc_error(500, -32600, "oops"),
            rpc(-32600, 500, "oops"),
        ),
        ("redirect", redirect, status(307)),
        ("accepted without an answer", http(202, ""), WireFault::Cut),
        (
            "empty",
            json_reply(200, &Value::Null),
            WireFault::Other("the answer is to another request".into()),
        ),
        (
            "a page",
            http(200, "<html>"),
            WireFault::Other("the answer is neither JSON nor events".into()),
        ),
        (
            "another's",
            json_reply(200, &answer(json!(77))),
            WireFault::Other("the answer is to another request".into()),
        ),
        ("large", json_reply(200, &json!(large)), WireFault::TooLarge),
        (
            "large event",
            events(vec![Part::Text(format!("data: {large}\n\n"))], true),
            WireFault::TooLarge,
        ),
        ("many events", events(pieces(), true), WireFault::TooLarge),
        (
            "no event",
            events(vec![Part::Text(": hello\n\n".into())], true),
            WireFault::Cut,
        ),
        (
            "cut event",
            events(vec![Part::Text("id: 5\ndata: {\"json".into())], false),
            WireFault::Cut,
        ),
        (
            "another's event",
            events(vec![event(&answer(json!(77)))], true),
            WireFault::Cut,
        ),
    ];
    for (name, reply, expected) in rows {
        let bench = Bench::new().await;
        bench.server.once("tools/call", reply);
        assert_eq!(fault(bench.write().await), expected, "{name}");
        assert_eq!(bench.calls(), 1, "{name}");
        assert!(
            bench.server.seen("").iter().all(|seen| seen.http != "GET"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn an_error_without_events_and_one_among_events_are_the_same() {
    let bench = Bench::new().await;
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "no"}});
    bench.server.once(
        "tools/call",
        Reply::Events {
            parts: vec![event(&error)],
            finish: true,
        },
    );
    let expected = WireFault::Rpc {
        code: -32603,
        message: "no".to_owned(),
        status: 200,
    };
    assert_eq!(fault(bench.write().await), expected);
    assert_eq!(
        settle(Err(expected), Access::Write),
        Outcome::Unknown {
            why: "the server answered error -32603".to_owned()
        }
    );
}

#[tokio::test]
async fn a_challenge_is_told_apart_from_a_bare_401() {
    let bench = Bench::new().await;
    let headers = vec![(
        "www-authenticate",
        "Bearer error=\"invalid_token\"".to_owned(),
    )];
    bench.server.once(
        "tools/call",
        Reply::Http {
            status: 401,
            headers,
            body: vec![],
        },
    );
    bench.server.once("tools/call", http(401, ""));
    let expected = Err(WireFault::HttpStatus {
        status: 401,
        session: true,
    });
    for challenged in [true, false] {
        let told = told(bench.write().await);
        assert_eq!(
            (told.result, told.challenged),
            (expected.clone(), challenged)
        );
    }
    assert_eq!(bench.calls(), 2);
    let headers = vec![("www-authenticate", "Bearer".to_owned())];
    bench.server.once(
        "initialize",
        Reply::Http {
            status: 401,
            headers,
            body: vec![],
        },
    );
    let told = told(bench.read().await);
    assert!(told.challenged);
    assert_eq!(
        told.result,
        Err(WireFault::HttpStatus {
            status: 401,
            session: false
        })
    );
}

#[tokio::test]
async fn an_unreachable_server_means_not_sent() {
    let bench = Bench::new().await;
    let nowhere = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nowhere.local_addr().unwrap();
    drop(nowhere);
    let tools = tools_at(format!("http://{address}/mcp"));
    let seen = tools.list(&bench.target()).await;
    assert!(matches!(seen, Err(WireFault::NotSent(_))), "{seen:?}");
    let wire = Wire::new(
        tools.outbound.client().clone(),
        format!("http://{address}/").parse().unwrap(),
        bench.token.secret.clone(),
        Era::Handshake,
    );
    let arguments = arguments();
    let shot = Shot::call(armed(&arguments, true));
    assert!(
        !post(
            &wire,
            message("post_message", arguments.value(), Some(&shot))
        )
        .await
    );
    assert!(matches!(
        fault(shot.close(WireFault::Cut)),
        WireFault::NotSent(_)
    ));
}

#[tokio::test]
async fn a_token_that_a_server_quotes_is_not_handed_on() {
    let quoted = format!("you sent Bearer {TOKEN}");
    let result = json!({"content": [{"type": "text", "text": quoted}],
        "structuredContent": {"headers": {"authorization": quoted}}});
    let mut failed = result.clone();
    failed["isError"] = json!(true);
    let answer =
        |result: Value| json_reply(200, &json!({"jsonrpc": "2.0", "id": 1, "result": result}));
    for reply in [
        answer(result),
        answer(failed),
        rpc_error(200, -32603, &quoted),
        rpc_error(400, -32000, &quoted),
        http(500, &quoted),
        http(200, &quoted),
    ] {
        let bench = Bench::new().await;
        bench.server.once("tools/call", reply);
        let seen = bench.read().await;
        assert_eq!(bench.calls(), 1);
        let report = format!("{:?}", told(seen));
        assert!(!report.contains(TOKEN), "{report}");
    }
    let bench = Bench::new().await;
    let mut quoting = tool("post_message");
    quoting["description"] = json!(quoted);
    quoting["inputSchema"]["properties"]["text"]["default"] = json!(quoted);
    bench.server.set_tools(vec![quoting], 10);
    let listed = bench.tools.list(&bench.target()).await.unwrap();
    let prepared = bench
        .tools
        .prepare(&bench.target(), "post_message")
        .await
        .unwrap();
    assert_eq!(prepared.live.as_ref(), listed.first());
    let shown = format!("{listed:?}{prepared:?}");
    assert!(
        shown.contains("you sent Bearer") && !shown.contains(TOKEN),
        "{shown}"
    );
    bench
        .server
        .once("tools/list", rpc_error(200, -32603, &quoted));
    let refused = bench.tools.list(&bench.target()).await;
    assert!(!format!("{refused:?}").contains(TOKEN), "{refused:?}");
}

#[test]
fn no_debug_text_shows_the_token() {
    let token = AccessToken {
        version: 1,
        secret: TOKEN.into(),
    };
    let row = row();
    let tenant = TenantId::from_stored("lakeside").unwrap();
    let target = Target {
        tenant: &tenant,
        connection: &row,
        token: &token,
    };
    let outbound = Outbound::new(Guard::new(true)).unwrap();
    let url = "http://127.0.0.1:1/".parse().unwrap();
    let wire = Wire::new(
        outbound.client().clone(),
        url,
        token.secret.clone(),
        Era::Handshake,
    );
    assert!(!format!("{token:?}{target:?}{wire:?}").contains("canary"));
}
