//! Contexts, as clients change, read and watch them.

mod behind;
mod reads;
mod room;
mod watch;

use crate::support::World;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use pb::context_notice::Notice;
use tonic::Streaming;

fn message(role: wire::Role, part: wire::part::Part) -> wire::Message {
    wire::Message {
        role: role.into(),
        parts: vec![part.into()],
    }
}

fn user(text: &str) -> wire::Message {
    message(wire::Role::User, wire::part::Part::Text(text.to_owned()))
}

fn assistant(text: &str) -> wire::Message {
    wire::Message {
        role: wire::Role::Assistant.into(),
        ..user(text)
    }
}

/// The text of a message, if it has any.
fn text(message: Option<&wire::Message>) -> &str {
    let part = message.and_then(|message| message.parts.first()?.part.as_ref());
    match part {
        Some(wire::part::Part::Text(text)) => text,
        _ => "",
    }
}

async fn session(world: &World) -> String {
    let create = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let created = world.client.clone().create_session(create).await;
    created.expect("a session").into_inner().session
}

async fn append(world: &World, session: &str, context: &str, message: wire::Message) -> u64 {
    let append = pb::AppendMessageRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        context: context.to_owned(),
        message: Some(message),
        ..pb::AppendMessageRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let appended = world.until(contexts.append_message(append)).await;
    appended.expect("it is appended").into_inner().seq
}

async fn create(world: &World, session: &str, context: wire::CreateContext) -> u64 {
    let create = pb::CreateContextRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        context: Some(context),
    };
    let mut contexts = world.contexts.clone();
    let created = world.until(contexts.create_context(create)).await;
    created.expect("it is created").into_inner().seq
}

/// All pages of a list, as texts with their indices.
async fn list(world: &World, list: pb::ListMessagesRequest) -> Vec<(u32, String)> {
    let (mut listed, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListMessagesRequest {
            page_token,
            ..list.clone()
        };
        let page = world.contexts.clone().list_messages(request).await;
        let page = page.expect("a page").into_inner();
        let messages = page.messages.into_iter();
        listed.extend(messages.map(|it| (it.index, text(it.message.as_ref()).to_owned())));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return listed;
        }
    }
}

async fn watch(
    world: &World,
    session: &str,
    context: &str,
    after_seq: u64,
) -> Streaming<pb::WatchContextResponse> {
    let request = pb::WatchContextRequest {
        session: session.to_owned(),
        context: context.to_owned(),
        after_seq,
    };
    let watched = world.contexts.clone().watch_context(request).await;
    watched.expect("a watch").into_inner()
}

async fn next(
    world: &World,
    watched: &mut Streaming<pb::WatchContextResponse>,
) -> pb::WatchContextResponse {
    let message = world.until(watched.message()).await.expect("no error");
    message.expect("more")
}

fn appended(message: &pb::WatchContextResponse) -> Vec<&str> {
    let notices = message.notices.iter().map(|it| it.notice.as_ref());
    let texts = notices.map(|notice| match notice {
        Some(Notice::Appended(appended)) => text(appended.message.as_ref()),
        other => panic!("{other:?}"),
    });
    texts.collect()
}
