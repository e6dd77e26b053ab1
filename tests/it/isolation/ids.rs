//! Ids that clients make up, and places in lists that are not theirs.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Chat, Person, Stack, fresh};

/// Every byte that could mean something in a path, escaped.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// What is spelled like an id, or like a key around it, and is none.
fn odd(id: &str) -> Vec<String> {
    let wide: String = id
        .chars()
        .map(|letter| match letter {
            '!'..='~' => char::from_u32(u32::from(letter) + 0xFEE0).expect("a letter"),
            other => other,
        })
        .collect();
    let mut ids: Vec<String> = [
        "#",
        "AP#{}",
        "APID#{}",
        "T#lakeside",
        "T#lakeside#{}",
        "{}#",
        "{}#0000000001",
        "{} ",
        " {}",
        "{}\0",
        "{}\n",
        "{}\r\nx: y",
        "../{}",
        "{}/../{}",
        "{}/decision",
        "{}?a=b",
        "{}%00",
        "*",
        "'{}'",
        "\"{}\"",
        "{}\u{200B}",
        "\u{202E}{}",
        "{}\u{0301}",
        "{},{}",
        "[{}]",
        "null",
        "0",
        "-1",
        "%23",
        "❤",
    ]
    .iter()
    .map(|form| form.replace("{}", id))
    .collect();
    ids.push(wide);
    ids.push(id.replace('0', "О").replace('A', "А"));
    ids.push(id.to_lowercase());
    ids.push(id.chars().rev().collect());
    ids.push(id.repeat(40));
    ids.retain(|odd| odd != id);
    ids
}

/// The stand-in for the API's gateway reads these escapes, which the gateway leaves as they are: what
/// comes after them would be a query, a fragment or another path.
fn is_read_on_the_way(id: &str) -> bool {
    id.contains(|letter: char| letter.is_ascii_control() || " #?%/\\".contains(letter))
}

async fn is_nothing(person: &Person<'_>, method: Method, path: &str, body: Option<&Value>) {
    let answer = person.send(method.clone(), path, body).await;
    if answer.status == 204 {
        assert!(
            path.ends_with("/stream") && answer.text.is_empty(),
            "{path}"
        );
        return;
    }
    assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text);
    let code = answer.body["code"].as_str().unwrap_or_default().to_owned();
    assert!(
        ["not_found", "unknown_conversation"].contains(&code.as_str()),
        "{path}: {code}"
    );
    answer.problem(404, &code);
}

#[tokio::test]
async fn an_id_in_another_spelling_is_unknown_to_its_owner_and_to_everybody() {
    let stack = Stack::shared().await;
    let owner = stack.person("lakeside-admin").await;
    let chat = owner.chat();
    let text = fresh("spelled");
    let id = chat.ask_to_post(&text, "#general").await;
    let yes = json!({ "decision": "approve" });
    let done = json!({ "outcome": "done", "reason": "I looked" });
    for person in [&owner, &stack.person("hilltop-admin").await] {
        for odd in odd(&id) {
            let in_query = escaped(&odd);
            for path in ["/v1/audit", "/v1/audit/verify"] {
                let path = format!("{path}?approval={in_query}");
                is_nothing(person, Method::GET, &path, None).await;
            }
            if is_read_on_the_way(&odd) {
                continue;
            }
            let approval = format!("/v1/approvals/{in_query}");
            is_nothing(person, Method::GET, &approval, None).await;
            for (what, body) in [("decision", &yes), ("resolve", &done)] {
                let path = format!("{approval}/{what}");
                is_nothing(person, Method::POST, &path, Some(body)).await;
            }
        }
        for odd in odd(&chat.id) {
            let escaped = escaped(&odd);
            let stream = format!("/v1/chat/{escaped}/stream");
            is_nothing(person, Method::GET, &stream, None).await;
            if is_read_on_the_way(&odd) {
                continue;
            }
            let conversation = format!("/v1/conversations/{escaped}");
            let messages = format!("{conversation}/messages");
            is_nothing(person, Method::GET, &messages, None).await;
            is_nothing(person, Method::DELETE, &conversation, None).await;
        }
        for odd in odd(&chat.id) {
            // Those that could be an id begin a conversation of their own; that is no business of ours.
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            if odd.chars().all(allowed) && (8..=64).contains(&odd.len()) {
                continue;
            }
            let chat = Chat::new(person, odd.clone());
            let answer = chat.try_post(&chat.message("hello")).await;
            answer.problem(400, "bad_request");
        }
    }
    assert_eq!(owner.approval(&id).await["state"], "pending");
    assert_eq!(chat.messages().await.len(), 2);
    assert_eq!(owner.events(&id).await, ["requested"]);
    owner.reject(&id, "no").await;
    assert_eq!(stack.posted(&text).await, 0);
}

#[tokio::test]
async fn conversations_of_the_same_name_are_each_persons_own() {
    let stack = Stack::shared().await;
    let name = fresh("shared-name");
    let mut texts = Vec::new();
    let people = [
        "lakeside-admin",
        "hilltop-admin",
        "lakeside-deputy",
        "hilltop-deputy",
    ];
    for person in people {
        let person = stack.person(person).await;
        let text = fresh(&person.name);
        let chat = Chat::new(&person, name.clone());
        // The same id of the message too, which makes a turn the same only within its conversation.
        let told = chat.post(&chat.message_with_id("message-1", &text)).await;
        assert_eq!(told.finish(), "stop");
        texts.push(text);
    }
    for (person, text) in people.iter().zip(&texts) {
        let person = stack.person(person).await;
        let chat = Chat::new(&person, name.clone());
        let messages = chat.messages().await;
        assert_eq!(messages.len(), 2, "{messages:?}");
        for other in &texts {
            let shown = messages[0].to_string().contains(other.as_str());
            assert_eq!(shown, other == text, "{} and {other}", person.name);
        }
        let deleted = person.delete(&format!("/v1/conversations/{name}")).await;
        assert_eq!(deleted.status, 204, "{}", deleted.text);
    }
}

fn cursor(route: &str, tenant: &str, after: &str) -> String {
    use base64::Engine;
    let text = format!("{route}\n{tenant}\n{after}");
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

#[tokio::test]
async fn a_place_in_a_list_shows_nothing_of_another_school_or_person() {
    let stack = Stack::shared().await;
    let owner = stack.person("lakeside-admin").await;
    let chat = owner.chat();
    let texts = [fresh("first"), fresh("second")];
    let mut ids = Vec::new();
    for text in &texts {
        ids.push(chat.ask_to_post(text, "#general").await);
    }
    owner.chat().say("hello").await;
    let others = [
        stack.person("hilltop-admin").await,
        stack.person("hilltop-teacher").await,
        stack.person("lakeside-deputy").await,
        stack.person("lakeside-teacher").await,
    ];
    let mut secrets: Vec<&str> = texts.iter().chain(&ids).map(String::as_str).collect();
    secrets.push(&chat.id);
    // As the lists make them, by whom they were made for, and by others.
    for list in [
        "/v1/approvals?limit=1",
        "/v1/conversations?limit=1",
        "/v1/audit?limit=1",
        &format!("/v1/audit?approval={}&limit=1", ids[0]),
        &format!("/v1/conversations/{}/messages?limit=1", chat.id),
        "/v1/audit/verify?",
    ] {
        let page = owner.get(list).await.ok();
        let Some(next) = page["next"].as_str() else {
            assert!(list.contains("approval="), "{list} has one part: {page}");
            continue;
        };
        assert_eq!(
            owner.get(&format!("{list}&cursor={next}")).await.status,
            200
        );
        for person in &others {
            let answer = person.get(&format!("{list}&cursor={next}")).await;
            let known = [200, 400, 403, 404].contains(&answer.status);
            assert!(known, "{list} for {}: {answer:?}", person.name);
            if person.name.starts_with("hilltop") {
                assert_ne!(answer.status, 200, "{list} for {}: {answer:?}", person.name);
            }
            for secret in &secrets {
                assert!(!answer.text.contains(secret), "{list} for {}", person.name);
            }
        }
        // In another list it means nothing.
        let elsewhere = if list.contains("/approvals") {
            "/v1/conversations"
        } else {
            "/v1/approvals"
        };
        let answer = owner.get(&format!("{elsewhere}?cursor={next}")).await;
        answer.problem(400, "bad_request");
    }
    // As somebody would forge them, for their own school with another's place in it, and for the other.
    let day = 99_999;
    let places = [
        ids[0].clone(),
        "7ZZZZZZZZZZZZZZZZZZZZZZZZZ".to_owned(),
        format!("{day}|"),
        format!("20000|9999999999999#AP#{}#0000000001", ids[0]),
        format!("20000|T#lakeside#AP#{}", ids[0]),
        format!("9999999999999#{}", chat.id),
        format!("approvals#{}", ids[0]),
        "days#99999|".to_owned(),
        "days#".to_owned(),
        "999999".to_owned(),
        String::new(),
        "\0".to_owned(),
        "a\nb\nc".to_owned(),
    ];
    let lists = [
        ("approvals", "/v1/approvals?limit=100".to_owned()),
        ("audit", "/v1/audit?limit=100".to_owned()),
        ("audit.approval", format!("/v1/audit?approval={}", ids[0])),
        ("audit.verify", "/v1/audit/verify?".to_owned()),
        ("conversations", "/v1/conversations?limit=100".to_owned()),
        (
            "messages",
            format!("/v1/conversations/{}/messages?limit=100", chat.id),
        ),
    ];
    for (route, list) in &lists {
        for place in &places {
            for person in &others {
                for school in ["lakeside", "hilltop", "T#lakeside"] {
                    let cursor = cursor(route, school, place);
                    let answer = person.get(&format!("{list}&cursor={cursor}")).await;
                    let known = [200, 400, 403, 404].contains(&answer.status);
                    assert!(known, "{list} {place:?} for {}: {answer:?}", person.name);
                    for secret in &secrets {
                        assert!(
                            !answer.text.contains(secret),
                            "{list} {place:?}: {answer:?}"
                        );
                    }
                }
            }
        }
    }
    for id in &ids {
        owner.reject(id, "no").await;
    }
}
