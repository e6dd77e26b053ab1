//! A scripted MCP server over plain sockets: it can do what no library would let it do.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

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
    script: HashMap<String, VecDeque<Reply>>,
    seen: Vec<Seen>,
    tools: Vec<Value>,
    page: usize,
    effects: usize,
    sessions: usize,
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
        let id = seen.body.get("id").cloned().unwrap_or_default();
        let result = match seen.method() {
            "initialize" => {
                self.sessions += 1;
                let result = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "scripted", "version": "1"}
                });
                let session = format!("session-{}", self.sessions);
                let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
                let headers = vec![
                    ("content-type", "application/json".to_owned()),
                    ("mcp-session-id", session),
                ];
                return Reply::Http {
                    status: 200,
                    headers,
                    body: body.into_bytes(),
                };
            }
            "tools/list" => {
                let cursor = seen.body.pointer("/params/cursor").and_then(Value::as_str);
                let from: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
                let to = (from + self.page).min(self.tools.len());
                let mut result = json!({"tools": self.tools[from..to].to_vec()});
                if to < self.tools.len() {
                    result["nextCursor"] = json!(to.to_string());
                }
                result
            }
            "tools/call" => {
                self.effects += 1;
                json!({"content": [{"type": "text", "text": format!("done {}", self.effects)}]})
            }
            _ => return http(if seen.http == "GET" { 405 } else { 202 }, ""),
        };
        json_reply(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
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
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
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
