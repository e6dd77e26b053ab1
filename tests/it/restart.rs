//! Everything stops between the question and the answer.

use crate::harness::{Chat, Own, fresh};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_answered_and_done_after_everything_was_restarted() {
    let mut own = Own::start(&[]).await;
    let text = fresh("restart");
    let (chat_id, id, before);
    {
        let stack = own.stack();
        let admin = stack.person("lakeside-admin").await;
        let chat = admin.chat();
        id = chat.ask_to_post(&text, "#general").await;
        before = chat.messages().await;
        chat_id = chat.id.clone();
    }
    own.stop();
    let stack = own.stack();
    let gone = stack
        .http
        .get(format!("{}/v1/health", stack.base))
        .send()
        .await;
    assert!(gone.is_err(), "nothing answers while it is stopped");
    own.run(&[]).await;
    // A new client: nothing is kept of the old one but the person.
    let stack = own.stack();
    let admin = stack.person("lakeside-admin").await;
    let chat = Chat::new(&admin, chat_id);
    assert_eq!(chat.messages().await, before, "the card is as it was");
    assert_eq!(admin.approval(&id).await["state"], "pending");
    assert_eq!(stack.posted(&text).await, 0);
    admin.approve(&id).await;
    admin.until(&id, "succeeded", 30).await;
    chat.until_told(&format!("Posted “{text}” to #general."), 30)
        .await;
    assert_eq!(stack.posted(&text).await, 1);
    assert_eq!(
        admin.events(&id).await,
        ["requested", "decided", "claimed", "settled"]
    );
}
