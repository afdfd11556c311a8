//! Requests about contexts. Those that change something carry the same id each time they are sent.

use crate::client::Client;
use crate::error::CliError;
use cairn_proto::event::{
    CompactContext, CreateContext, DestroyContext, Message, Role, WhenFullChange, WindowChange,
};
use cairn_proto::orchestrator::{
    CompactContextRequest, CompactContextResponse, ContextSummary, CountMessagesRequest,
    CountMessagesResponse, CreateContextRequest, DestroyContextRequest, DestroyContextResponse,
    ExtendMessagesRequest, FindMessagesRequest, ImportContextRequest, ImportContextResponse,
    ListContextsRequest, ListMessagesRequest, RemoveMessageRequest, SwitchAgentRequest,
    SwitchContextRequest, UpdateContextRequest, Zone,
};

/// Most pages that fill the history of a line editor.
const MOST_PAGES: usize = 10;

/// The contexts of a session, by name.
pub(in crate::commands) async fn list(
    client: &mut Client<'_>,
    session: &str,
) -> Result<Vec<ContextSummary>, CliError> {
    let request = ListContextsRequest {
        session: session.to_owned(),
    };
    let listed = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.list_contexts(request).await }
    });
    Ok(listed.await?.contexts)
}

/// Creates a context, and returns the number of the event.
pub(in crate::commands) async fn create(
    client: &mut Client<'_>,
    session: &str,
    context: CreateContext,
) -> Result<u64, CliError> {
    let request = CreateContextRequest {
        session: session.to_owned(),
        request_id: request_id(),
        context: Some(context),
    };
    let created = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.create_context(request).await }
    });
    Ok(created.await?.seq)
}

/// Makes a context the active one, and returns the number of the event.
pub(in crate::commands) async fn switch(
    client: &mut Client<'_>,
    session: &str,
    name: &str,
) -> Result<u64, CliError> {
    let request = SwitchContextRequest {
        session: session.to_owned(),
        request_id: request_id(),
        context: name.to_owned(),
    };
    let switched = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.switch_context(request).await }
    });
    switched
        .await
        .map(|answer| answer.seq)
        .map_err(|error| not_found(client, session, error))
}

/// Gives a context another agent from its next turn on, and returns the number of the event. The default agent has
/// an empty name.
pub(in crate::commands) async fn switch_agent(
    client: &mut Client<'_>,
    session: &str,
    context: &str,
    agent: &str,
) -> Result<u64, CliError> {
    let request = SwitchAgentRequest {
        session: session.to_owned(),
        request_id: request_id(),
        context: context.to_owned(),
        agent: agent.to_owned(),
    };
    let switched = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.switch_agent(request).await }
    });
    let switched = switched.await.map(|answer| answer.seq);
    switched.map_err(|error| not_found(client, session, error))
}

/// Changes settings of a context, and returns the number of the event. One that is not given stays.
pub(in crate::commands) async fn update(
    client: &mut Client<'_>,
    session: &str,
    name: &str,
    (window, when_full): (Option<WindowChange>, Option<WhenFullChange>),
) -> Result<u64, CliError> {
    let request = UpdateContextRequest {
        session: session.to_owned(),
        request_id: request_id(),
        context: name.to_owned(),
        expected_version: None,
        window,
        when_full,
    };
    let set = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.update_context(request).await }
    });
    let set = set.await.map(|answer| answer.seq);
    set.map_err(|error| not_found(client, session, error))
}

/// Starts the compaction of a context.
pub(in crate::commands) async fn compact(
    client: &mut Client<'_>,
    session: &str,
    compact: CompactContext,
) -> Result<CompactContextResponse, CliError> {
    let request = CompactContextRequest {
        session: session.to_owned(),
        request_id: request_id(),
        compact: Some(compact),
    };
    let started = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.compact_context(request).await }
    });
    let started = started.await;
    started.map_err(|error| not_found(client, session, error))
}

/// The messages of a zone of a context, and the version that was read.
pub(in crate::commands) async fn messages(
    client: &mut Client<'_>,
    session: &str,
    name: &str,
    zone: Zone,
) -> Result<(Vec<Message>, u64), CliError> {
    let mut request = ListMessagesRequest {
        session: session.to_owned(),
        context: name.to_owned(),
        zone: zone.into(),
        ..ListMessagesRequest::default()
    };
    let mut messages = Vec::new();
    loop {
        let page = client.persist_contexts(|mut contexts| {
            let request = request.clone();
            async move { contexts.list_messages(request).await }
        });
        let page = page.await;
        let page = page.map_err(|error| not_found(client, session, error))?;
        messages.extend(page.messages.into_iter().filter_map(|it| it.message));
        if page.next_page_token.is_empty() {
            return Ok((messages, page.version));
        }
        request.page_token = page.next_page_token;
    }
}

/// Adds messages to the active context, all or none.
pub(in crate::commands) async fn extend(
    client: &mut Client<'_>,
    session: &str,
    messages: Vec<Message>,
) -> Result<(), CliError> {
    let request = ExtendMessagesRequest {
        session: session.to_owned(),
        request_id: request_id(),
        messages,
        ..ExtendMessagesRequest::default()
    };
    let extended = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.extend_messages(request).await }
    });
    extended.await.map(drop)
}

/// How many messages a context has.
pub(super) async fn count(
    client: &mut Client<'_>,
    session: &str,
    name: &str,
) -> Result<CountMessagesResponse, CliError> {
    let request = CountMessagesRequest {
        session: session.to_owned(),
        context: name.to_owned(),
    };
    let counted = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.count_messages(request).await }
    });
    let counted = counted.await;
    counted.map_err(|error| not_found(client, session, error))
}

/// Removes so many messages from an index on, of a context of this version, and returns the version after it.
pub(super) async fn remove(
    client: &mut Client<'_>,
    session: &str,
    name: &str,
    (index, count): (u32, u32),
    version: u64,
) -> Result<u64, CliError> {
    let request = RemoveMessageRequest {
        session: session.to_owned(),
        request_id: request_id(),
        context: name.to_owned(),
        expected_version: Some(version),
        index,
        count,
    };
    let removed = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.remove_message(request).await }
    });
    removed.await.map(|answer| answer.version)
}

/// Destroys a context.
pub(super) async fn destroy(
    client: &mut Client<'_>,
    session: &str,
    context: DestroyContext,
) -> Result<DestroyContextResponse, CliError> {
    let request = DestroyContextRequest {
        session: session.to_owned(),
        request_id: request_id(),
        context: Some(context),
    };
    let destroyed = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.destroy_context(request).await }
    });
    let destroyed = destroyed.await;
    destroyed.map_err(|error| not_found(client, session, error))
}

/// Adds the messages of lines.
pub(super) async fn import(
    client: &mut Client<'_>,
    mut request: ImportContextRequest,
) -> Result<ImportContextResponse, CliError> {
    request.request_id = request_id();
    let imported = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.import_context(request).await }
    });
    let imported = imported.await;
    imported.map_err(|error| not_found(client, &request.session, error))
}

/// What the person said in a context, oldest first. Nothing if that cannot be read: it only fills the
/// history of a line editor.
pub(in crate::commands) async fn messages_of_user(
    client: &mut Client<'_>,
    session: &str,
    context: &str,
) -> Vec<String> {
    let mut request = FindMessagesRequest {
        session: session.to_owned(),
        context: context.to_owned(),
        role: Role::User.into(),
        ..FindMessagesRequest::default()
    };
    let (mut texts, mut service) = (Vec::new(), client.contexts());
    for _ in 0..MOST_PAGES {
        let Ok(page) = service.find_messages(request.clone()).await else {
            break;
        };
        let page = page.into_inner();
        let messages = page.messages.iter();
        texts.extend(messages.filter_map(|found| found.message.as_ref().map(first_text)));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    texts
}

/// The first text of a message that is no notice of Cairn.
fn first_text(message: &Message) -> String {
    let mut texts = message.parts.iter().filter_map(|part| part.said());
    texts.next().unwrap_or_default().to_owned()
}

/// An error about a context that is not there, with the way to those that are.
pub(super) fn not_found(client: &Client<'_>, session: &str, error: CliError) -> CliError {
    if error.reason != "CONTEXT_NOT_FOUND" {
        return error;
    }
    let list = crate::ui::text::command(client.context(), &format!("context list {session}"));
    error.hint(format!("see the contexts with: {list}"))
}

fn request_id() -> String {
    format!("context-{}", uuid::Uuid::now_v7().simple())
}
