//! A scripted MCP server over plain sockets: it can do what no library would let it do.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Which protocol the server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// 2025-11-25, with sessions.
    #[default]
    Sessions,
    /// 2025-11-25 without them.
    NoSessions,
    /// 2026-07-28.
    Stateless,
    /// 2026-07-28, and 2025-11-25 with sessions.
    Both,
}

/// What the server does once with a message of one method.
pub(crate) enum Reply {
    Http {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// Chunks of an event stream.
    Events {
        parts: Vec<Part>,
        finish: bool,
    },
    /// These bytes, head and all, piece by piece; then the connection ends.
    Raw(Vec<Vec<u8>>),
    /// Reads the request, does what it says, and ends the connection.
    Cut,
    Hang,
    /// Answers as usual, then ends the connection without having said so.
    ThenClose,
}

pub(crate) enum Part {
    Text(String),
    /// Sends on only when this many answers to the server's own requests have come.
    Answers(usize),
    /// This text again and again, as long as the client listens.
    Each(Duration, &'static str),
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) http: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
}

impl Seen {
    fn method(&self) -> &str {
        self.body
            .get("method")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    speaks: Speaks,
    /// By the end of the path, for those that are spoken with otherwise.
    speaks_at: HashMap<String, Speaks>,
    /// All answers come as events.
    events: bool,
    script: HashMap<String, VecDeque<Reply>>,
    seen: Vec<Seen>,
    tools: Vec<Value>,
    page: usize,
    effects: usize,
    sessions: usize,
    /// Sessions up to this one are forgotten.
    forgotten: usize,
    hung_up: usize,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

pub(crate) fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("Does {name}."),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": true}
    })
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tools = vec![tool("post_message"), tool("list_messages")];
        let state = Arc::new(Mutex::new(State {
            tools,
            page: 100,
            ..State::default()
        }));
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            state,
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) fn speak(&self, speaks: Speaks) {
        self.state.lock().unwrap().speaks = speaks;
    }

    pub(crate) fn speak_at(&self, school: &str, speaks: Speaks) {
        let mut state = self.state.lock().unwrap();
        state.speaks_at.insert(school.to_owned(), speaks);
    }

    pub(crate) fn answer_in_events(&self) {
        self.state.lock().unwrap().events = true;
    }

    pub(crate) fn forget_sessions(&self) {
        let mut state = self.state.lock().unwrap();
        state.forgotten = state.sessions;
    }

    /// The next message of this method gets this reply.
    pub(crate) fn once(&self, method: &str, reply: Reply) {
        self.state
            .lock()
            .unwrap()
            .script
            .entry(method.to_owned())
            .or_default()
            .push_back(reply);
    }

    pub(crate) fn set_tools(&self, tools: Vec<Value>, page: usize) {
        let mut state = self.state.lock().unwrap();
        state.tools = tools;
        state.page = page;
    }

    pub(crate) fn seen(&self, method: &str) -> Vec<Seen> {
        let state = self.state.lock().unwrap();
        state
            .seen
            .iter()
            .filter(|seen| seen.method() == method)
            .cloned()
            .collect()
    }

    pub(crate) fn all_seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// Answers to the server's own requests.
    pub(crate) fn answers(&self) -> Vec<Value> {
        self.state.lock().unwrap().answers()
    }

    /// How often a call was carried out.
    pub(crate) fn effects(&self) -> usize {
        self.state.lock().unwrap().effects
    }

    /// Waits until a client left a request that was never answered.
    pub(crate) async fn was_left(&self) {
        while self.state.lock().unwrap().hung_up == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) async fn saw(&self, method: &str, times: usize) {
        while self.seen(method).len() < times {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl State {
    fn answers(&self) -> Vec<Value> {
        let answers = self
            .seen
            .iter()
            .filter(|seen| seen.http == "POST" && seen.method().is_empty());
        answers.map(|seen| seen.body.clone()).collect()
    }

    fn next(&mut self, seen: &Seen) -> (Reply, bool) {
        self.seen.push(seen.clone());
        match self
            .script
            .get_mut(seen.method())
            .and_then(VecDeque::pop_front)
        {
            None => (self.usual(seen), false),
            Some(Reply::Cut) => {
                let _ = self.usual(seen);
                (Reply::Cut, true)
            }
            Some(Reply::ThenClose) => (self.usual(seen), true),
            Some(other) => (other, false),
        }
    }

    fn usual(&mut self, seen: &Seen) -> Reply {
        let school = seen.path.rsplit('/').next().unwrap_or_default();
        let speaks = self.speaks_at.get(school).copied().unwrap_or(self.speaks);
        let is_stateless = seen.meta("protocolVersion").is_some();
        if is_stateless && matches!(speaks, Speaks::Stateless | Speaks::Both) {
            return self.stateless(seen);
        }
        match speaks {
            Speaks::Stateless if seen.http != "POST" => http(405, ""),
            Speaks::Stateless => seen.error(400, -32020, "MCP-Protocol-Version is missing"),
            Speaks::Sessions | Speaks::Both | Speaks::NoSessions => {
                self.after_handshake(seen, speaks)
            }
        }
    }

    fn after_handshake(&mut self, seen: &Seen, speaks: Speaks) -> Reply {
        let in_sessions = speaks != Speaks::NoSessions;
        if seen.http != "POST" {
            return http(405, "");
        }
        let version = seen.headers.get("mcp-protocol-version").map(String::as_str);
        let is_known = matches!(version, None | Some("2025-11-25"));
        if !is_known && (in_sessions || seen.method() != "server/discover") {
            return seen.error(400, -32000, "Bad Request: Unsupported protocol version");
        }
        let session = seen.headers.get("mcp-session-id").map(String::as_str);
        let number = session.and_then(|id| id.strip_prefix("session-")?.parse::<usize>().ok());
        if in_sessions && number.is_some_and(|number| number <= self.forgotten) {
            return http(404, "no such session");
        }
        let result = match seen.method() {
            "initialize" => {
                self.sessions += 1;
                let session = in_sessions.then(|| format!("session-{}", self.sessions));
                return self.reply(seen, hello(), session);
            }
            "tools/list" => self.list(seen),
            "tools/call" => self.call(),
            "" | "notifications/initialized" | "notifications/cancelled" => return http(202, ""),
            _ if in_sessions && session.is_none() => {
                return seen.error(400, -32000, "Bad Request: Server not initialized");
            }
            method => {
                let error = json!({"code": -32601, "message": format!("no method {method}")});
                let id = &seen.body["id"];
                let message = json!({"jsonrpc": "2.0", "id": id, "error": error});
                return Reply::Events {
                    parts: vec![event(&message)],
                    finish: true,
                };
            }
        };
        self.reply(seen, result, None)
    }

    /// Holds every header against the body, as the protocol demands of a server.
    fn stateless(&mut self, seen: &Seen) -> Reply {
        if let Some(why) = seen.mismatch(&self.tools) {
            return seen.error(400, -32020, &why);
        }
        if seen.meta("protocolVersion") != Some(&json!("2026-07-28")) {
            return seen.error(400, -32022, "Unsupported protocol version");
        }
        if !seen
            .meta("clientCapabilities")
            .is_some_and(Value::is_object)
        {
            return seen.error(400, -32602, "the client's capabilities are missing");
        }
        let mut result = match seen.method() {
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
            }),
            "tools/list" => self.list(seen),
            "tools/call" => self.call(),
            method => return seen.error(404, -32601, &format!("no method {method}")),
        };
        result["resultType"] = json!("complete");
        if seen.method() != "tools/call" {
            result["ttlMs"] = json!(3_600_000);
            result["cacheScope"] = json!("public");
        }
        self.reply(seen, result, None)
    }

    fn list(&self, seen: &Seen) -> Value {
        let cursor = seen.body.pointer("/params/cursor").and_then(Value::as_str);
        let from: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let to = (from + self.page).min(self.tools.len());
        let mut result = json!({"tools": self.tools[from..to].to_vec()});
        if to < self.tools.len() {
            result["nextCursor"] = json!(to.to_string());
        }
        result
    }

    fn call(&mut self) -> Value {
        self.effects += 1;
        json!({"content": [{"type": "text", "text": format!("done {}", self.effects)}]})
    }

    fn reply(&self, seen: &Seen, result: Value, session: Option<String>) -> Reply {
        let id = seen.body.get("id").cloned().unwrap_or_default();
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        if self.events && session.is_none() {
            return Reply::Events {
                parts: vec![event(&message)],
                finish: true,
            };
        }
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        Reply::Http {
            status: 200,
            headers,
            body: message.to_string().into_bytes(),
        }
    }
}

impl Seen {
    fn meta(&self, key: &str) -> Option<&Value> {
        let meta = self.body.pointer("/params/_meta")?;
        meta.get(format!("io.modelcontextprotocol/{key}"))
    }

    fn error(&self, status: u16, code: i64, message: &str) -> Reply {
        let error = json!({"code": code, "message": message});
        let id = self.body.get("id").cloned().unwrap_or_default();
        json_reply(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
    }

    fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?;
        let inside = value
            .strip_prefix("=?base64?")
            .and_then(|rest| rest.strip_suffix("?="));
        Some(match inside {
            Some(inside) => String::from_utf8(BASE64_STANDARD.decode(inside).unwrap()).unwrap(),
            None => value.clone(),
        })
    }

    /// What a header says that the body does not, or the other way round.
    fn mismatch(&self, tools: &[Value]) -> Option<String> {
        let text = |pointer: &str| {
            let value = self.body.pointer(pointer).and_then(Value::as_str);
            value.map(str::to_owned)
        };
        let version = self.meta("protocolVersion").and_then(Value::as_str);
        let mut expected = vec![
            (
                "mcp-protocol-version".to_owned(),
                version.map(str::to_owned),
            ),
            ("mcp-method".to_owned(), text("/method")),
            ("mcp-name".to_owned(), text("/params/name")),
            ("mcp-session-id".to_owned(), None),
        ];
        let name = text("/params/name");
        let tool = tools
            .iter()
            .find(|tool| tool["name"].as_str() == name.as_deref());
        let properties = tool.and_then(|tool| tool["inputSchema"]["properties"].as_object());
        for (argument, schema) in properties.into_iter().flatten() {
            if let Some(header) = schema["x-mcp-header"].as_str() {
                let value = match &self.body["params"]["arguments"][argument] {
                    Value::Null => None,
                    Value::String(text) => Some(text.clone()),
                    other => Some(other.to_string()),
                };
                let header = format!("mcp-param-{}", header.to_ascii_lowercase());
                expected.push((header, value));
            }
        }
        let known = |header: &str| expected.iter().any(|(name, _)| name == header);
        let unknown = self.headers.keys();
        if let Some(header) = unknown
            .into_iter()
            .find(|name| name.starts_with("mcp-") && !known(name))
        {
            return Some(format!("{header} repeats nothing"));
        }
        let wrong = expected
            .iter()
            .find(|(name, value)| self.header(name) != *value);
        wrong.map(|(name, value)| format!("{name} is not {value:?}"))
    }
}

fn hello() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "scripted", "version": "1"}
    })
}

pub(crate) fn http(status: u16, body: &str) -> Reply {
    let headers = vec![("content-type", "text/plain".to_owned())];
    Reply::Http {
        status,
        headers,
        body: body.as_bytes().to_vec(),
    }
}

pub(crate) fn json_reply(status: u16, body: &Value) -> Reply {
    let headers = vec![("content-type", "application/json".to_owned())];
    Reply::Http {
        status,
        headers,
        body: body.to_string().into_bytes(),
    }
}

pub(crate) fn event(message: &Value) -> Part {
    Part::Text(format!("event: message\ndata: {message}\n\n"))
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut stream = BufReader::new(stream);
    while let Some(seen) = read(&mut stream).await {
        let (reply, then_close) = state.lock().unwrap().next(&seen);
        if write(&mut stream, reply, &state).await.is_none() || then_close {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    stream
        .read_line(&mut line)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (http, path) = (words.next()?, words.next()?);
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream
            .read_line(&mut line)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Seen {
        http,
        path,
        headers,
        body,
    })
}

/// `None` ends the connection.
async fn write(
    stream: &mut BufReader<TcpStream>,
    reply: Reply,
    state: &Arc<Mutex<State>>,
) -> Option<()> {
    let stream = stream.get_mut();
    match reply {
        Reply::Http {
            status,
            headers,
            body,
        } => {
            let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            stream
                .write_all(format!("{head}\r\n").as_bytes())
                .await
                .ok()?;
            stream.write_all(&body).await.ok()
        }
        Reply::Events { parts, finish } => {
            let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\
                        transfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await.ok()?;
            for part in parts {
                match part {
                    Part::Text(text) => {
                        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
                        stream.write_all(chunk.as_bytes()).await.ok()?;
                    }
                    Part::Answers(number) => {
                        while state.lock().unwrap().answers().len() < number {
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                    }
                    Part::Each(pause, text) => loop {
                        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
                        stream.write_all(chunk.as_bytes()).await.ok()?;
                        tokio::time::sleep(pause).await;
                    },
                }
            }
            if finish {
                stream.write_all(b"0\r\n\r\n").await.ok()
            } else {
                None
            }
        }
        Reply::Raw(pieces) => {
            stream.set_nodelay(true).ok()?;
            for piece in pieces {
                stream.write_all(&piece).await.ok()?;
                // The client may read it before the next one is there.
                tokio::task::yield_now().await;
            }
            None
        }
        Reply::Cut | Reply::ThenClose => None,
        Reply::Hang => {
            let mut rest = [0; 64];
            while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
            state.lock().unwrap().hung_up += 1;
            None
        }
    }
}
