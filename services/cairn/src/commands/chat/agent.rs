//! The agent of a conversation: shown, and switched between turns.

use super::{Chat, start};
use crate::client::Client;
use crate::commands::agent::workspace::PREFIX;
use crate::commands::agent::{AGENT_NOT_FOUND, not_found};
use crate::commands::context::rpc;
use crate::error::CliError;
use crate::ui::describe::agent_line;
use crate::ui::text::command;
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_proto::api::GetAgentRequest;
use cairn_rpc::text::escape;

/// The name by which a context has the agent that a person names: that of a stored agent, or else of a file of the
/// workspace. Empty for the default agent.
///
/// # Errors
/// There is no such agent, or its file cannot be used; the service's.
pub(super) async fn found(client: &mut Client<'_>, name: &str) -> Result<String, CliError> {
    if name == DEFAULT_AGENT {
        return Ok(String::new());
    }
    let error = match check(client, name).await {
        Ok(()) => return Ok(name.to_owned()),
        Err(error) => error,
    };
    let is_missing = error.reason == AGENT_NOT_FOUND;
    if !is_missing || name.starts_with(PREFIX) {
        return Err(not_found(client.context(), error));
    }
    let of_file = format!("{PREFIX}{name}");
    match check(client, &of_file).await {
        Ok(()) => Ok(of_file),
        Err(other) if other.reason == "AGENT_NOT_USABLE" => Err(other),
        Err(_) => Err(not_found(client.context(), error)),
    }
}

async fn check(client: &mut Client<'_>, name: &str) -> Result<(), CliError> {
    let request = GetAgentRequest {
        name: name.to_owned(),
    };
    let agent = client.persist_agents(|mut agents| {
        let request = request.clone();
        async move { agents.get_agent(request).await }
    });
    agent.await.map(drop)
}

/// Gives the context of a session that is there the agent that the person named, unless a turn works: then the next
/// turn begins with it. Returns what is shown.
///
/// # Errors
/// The service's.
pub(super) async fn begin(
    chat: &mut Chat<'_, '_>,
    has_turn: bool,
) -> Result<Vec<String>, CliError> {
    if chat.is_new {
        return Ok(Vec::new());
    }
    refresh(chat).await?;
    let mut lines = Vec::new();
    if has_turn {
        let run = start::session(chat).await?.latest_run;
        lines.extend(
            run.filter(|run| run.agent_changed)
                .and_then(|run| agent_line(&run)),
        );
    }
    chat.wanted = chat.wanted.take().filter(|wanted| *wanted != chat.agent);
    let Some(wanted) = chat.wanted.clone() else {
        return Ok(lines);
    };
    let (before, after) = (shown(&chat.agent), shown(&wanted));
    if has_turn {
        lines.push(format!("the next turn begins with the agent {after}"));
        return Ok(lines);
    }
    switch_wanted(chat).await?;
    let context = escape(chat.expected());
    lines.push(format!(
        "the context {context} has the agent {after} now, and had {before} before"
    ));
    Ok(lines)
}

/// Gives the context the agent that the next turn begins with, if the person named one.
///
/// # Errors
/// The agent cannot be used; the service's. Then the next turn tries it again.
pub(super) async fn switch_wanted(chat: &mut Chat<'_, '_>) -> Result<(), CliError> {
    let Some(wanted) = chat.wanted.clone() else {
        return Ok(());
    };
    let context = chat.expected().to_owned();
    let switched = rpc::switch_agent(chat.client, &chat.session, &context, &wanted).await;
    switched.map_err(|error| not_found(chat.client.context(), error))?;
    chat.agent = wanted;
    chat.wanted = None;
    Ok(())
}

/// Takes the agent of a conversation into the new session that continues it.
///
/// # Errors
/// The service's.
pub(super) async fn keep(chat: &mut Chat<'_, '_>) -> Result<(), CliError> {
    refresh(chat).await?;
    if chat.wanted.is_none() && !chat.agent.is_empty() {
        chat.wanted = Some(chat.agent.clone());
    }
    Ok(())
}

/// `/agent`: the agent of the conversation.
///
/// # Errors
/// The service's.
pub(super) async fn show(chat: &mut Chat<'_, '_>) -> Result<Vec<String>, CliError> {
    if !chat.is_new {
        refresh(chat).await?;
    }
    let list = command(chat.client.context(), "agent list");
    Ok(vec![
        format!("agent {}", current(chat)),
        format!("/agent NAME continues with another one; see them with: {list}"),
    ])
}

/// `/agent NAME`: another agent from the next turn on.
///
/// # Errors
/// There is no such agent, or it cannot be used; the service's.
pub(super) async fn switch(chat: &mut Chat<'_, '_>, name: &str) -> Result<Vec<String>, CliError> {
    let wanted = found(chat.client, name).await?;
    let after = shown(&wanted);
    chat.wanted = Some(wanted);
    if chat.is_new {
        return Ok(vec![format!("the session begins with the agent {after}")]);
    }
    if let Err(error) = switch_wanted(chat).await {
        chat.wanted = None;
        return Err(error);
    }
    Ok(vec![format!(
        "this conversation continues with the agent {after}"
    )])
}

/// The agent of the next turn, as people are shown it.
pub(super) fn current(chat: &Chat<'_, '_>) -> String {
    shown(chat.next_agent())
}

fn shown(agent: &str) -> String {
    match agent {
        "" => DEFAULT_AGENT.to_owned(),
        name => escape(name).into_owned(),
    }
}

/// Reads which agent the context has: other clients may have switched it.
async fn refresh(chat: &mut Chat<'_, '_>) -> Result<(), CliError> {
    let contexts = rpc::list(chat.client, &chat.session).await?;
    let is_own = |name: &str, is_active: bool| match chat.context.as_str() {
        "" => is_active,
        own => own == name,
    };
    let own = contexts
        .into_iter()
        .find(|it| is_own(&it.name, it.is_active));
    let agent = own.and_then(|context| context.agent);
    let agent = agent.map(|agent| agent.name);
    let agent = agent.filter(|name| name != DEFAULT_AGENT);
    chat.agent = agent.unwrap_or_default();
    Ok(())
}
