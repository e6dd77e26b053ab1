//! Which tools a person's turn is offered, and what it is told of the others.

use serde_json::{Value, json};
use toshi_core::{Role, UserId, WriteMode};

use crate::scene::Scene;

impl Scene {
    /// The tools and the system message of the last prompt.
    async fn offered(&self) -> (Vec<String>, String) {
        let prompt = self.prompts().await.pop().unwrap();
        let tools = prompt
            .get("tools")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let names = tools
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
        let system = prompt["messages"][0]["content"]
            .as_str()
            .unwrap()
            .to_owned();
        (names.collect(), system)
    }

    async fn person(&self, user: &str, role: Role) -> UserId {
        self.stage
            .person(&self.tenant, "https://issuer.example", user, role)
            .await
    }
}

const ALL: [&str; 3] = [
    "demo__list_channels",
    "demo__list_messages",
    "demo__post_message",
];
const READS: [&str; 2] = ["demo__list_channels", "demo__list_messages"];
const NONE: [&str; 0] = [];

#[tokio::test]
async fn each_role_is_offered_what_it_may_use_and_hears_nothing_of_the_rest() {
    let scene = Scene::new().await;
    // An operator is no person of a school.
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Operator) {
        let user = scene
            .person(&format!("lakeside-{}", role.as_str()), role)
            .await;
        scene.say_as(&user, "hello").await;
        let (names, system) = scene.offered().await;
        match role {
            Role::Admin => assert_eq!(names, ALL),
            Role::Deputy => assert_eq!(names, READS),
            _ => assert_eq!(names, NONE, "{role:?}"),
        }
        assert!(!system.contains("not available"), "{role:?}: {system}");
        assert!(!system.contains("Demo workspace"), "{role:?}: {system}");
    }
}

#[tokio::test]
async fn a_tool_that_is_not_offered_is_not_called_by_its_name() {
    let scene = Scene::new().await;
    let teacher = scene.person("lakeside-teacher", Role::Teacher).await;
    let screen = scene.say_as(&teacher, "post \"Hi\" to #general").await;
    assert_eq!(screen.states(), NONE);
    assert!(screen.text().starts_with("I cannot do that"));
    assert_eq!(scene.posts().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_write_is_shown_with_a_place_for_the_agents_reason_and_a_read_without() {
    let scene = Scene::new().await;
    scene.say("hello").await;
    let prompt = scene.prompts().await.pop().unwrap();
    for tool in prompt["tools"].as_array().unwrap() {
        let function = &tool["function"];
        let write = function["name"] == "demo__post_message";
        assert_eq!(
            function["parameters"]["properties"]
                .get("_intent")
                .is_some(),
            write
        );
        let description = function["description"].as_str().unwrap();
        assert_eq!(description.contains("a person is asked"), write);
    }
}

#[tokio::test]
async fn a_withheld_tool_is_named_and_comes_back_with_its_definition() {
    let scene = Scene::new().await;
    scene.say("post \"Hi\" to #general").await;
    let id = scene.one_pending().await;
    scene
        .switch("mcp.demo.changed_definition", json!("description"))
        .await;
    scene.approve(id).await;
    scene.work().await;
    scene.say("hello").await;
    let (names, system) = scene.offered().await;
    assert_eq!(names, READS);
    assert!(
        system.contains(
            "Demo workspace: post_message is not available: the tool's definition changed"
        ),
        "{system}"
    );
    scene
        .switch("mcp.demo.changed_definition", Value::Null)
        .await;
    scene.say("hello").await;
    let (names, system) = scene.offered().await;
    assert_eq!(names, ALL);
    assert!(!system.contains("not available"), "{system}");
}

#[tokio::test]
async fn a_connection_that_is_down_or_stopped_is_named_to_those_who_use_it() {
    let scene = Scene::new().await;
    scene.school().set_kill("type:demo", true).await.unwrap();
    scene.say("hello").await;
    let (names, system) = scene.offered().await;
    assert_eq!(names, NONE);
    assert!(system.contains("Demo workspace is not available now: calls to it are stopped"));
    scene.school().set_kill("type:demo", false).await.unwrap();

    let mut connection = scene.school().connections().await.unwrap().remove(0);
    connection.usable = false;
    connection.epoch += 1;
    scene.school().update_connection(&connection).await.unwrap();
    scene.say("hello").await;
    let (names, system) = scene.offered().await;
    assert_eq!(names, NONE);
    assert!(system.contains("Demo workspace is not available now: an administrator"));
    let teacher = scene.person("lakeside-teacher", Role::Teacher).await;
    scene.say_as(&teacher, "hello").await;
    assert!(!scene.offered().await.1.contains("Demo workspace"));
}

#[tokio::test]
async fn lists_and_write_mode_narrow_the_offer() {
    let scene = Scene::new().await;
    let mut connection = scene.school().connections().await.unwrap().remove(0);
    type Names = &'static [&'static str];
    const NO: Names = &[];
    const POST: Names = &["post_message"];
    let rows: [(_, Option<Names>, Names, Names); 7] = [
        (WriteMode::Deny, None, NO, &READS),
        (WriteMode::All, None, &["list_messages"], &[ALL[0], ALL[2]]),
        (WriteMode::Allowlist, None, NO, &READS),
        (WriteMode::Allowlist, Some(POST), NO, &[ALL[2]]),
        (WriteMode::Allowlist, Some(NO), NO, NO),
        (WriteMode::All, Some(NO), NO, NO),
        (WriteMode::All, Some(POST), POST, NO),
    ];
    for (mode, allow, deny, offered) in rows {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        connection.write_mode = mode;
        connection.tool_allowlist = allow.map(owned);
        connection.tool_denylist = owned(deny);
        connection.epoch += 1;
        scene.school().update_connection(&connection).await.unwrap();
        scene.say("hello").await;
        assert_eq!(
            scene.offered().await.0,
            offered,
            "{mode:?} {allow:?} {deny:?}"
        );
    }
}

#[tokio::test]
async fn a_person_who_lost_their_role_since_the_question_is_blocked_at_the_claim() {
    let scene = Scene::new().await;
    scene.say("post \"Hi\" to #general").await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    let mut user = scene.school().user(&scene.admin).await.unwrap().unwrap();
    user.role = Role::Deputy;
    scene.school().put_user(&user).await.unwrap();
    scene.work().await;
    assert_eq!(scene.state(id).await, toshi_core::State::Blocked);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
}
