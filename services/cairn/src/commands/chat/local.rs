//! The commands of a conversation: what they ask of the services, and the lines that they show.

use super::slash::{Slash, help};
use super::{Chat, agent, continuation, mode, start};
use crate::commands::context::{list, rpc};
use crate::commands::memory;
use crate::error::CliError;
use crate::ui::describe::usage_text;
use cairn_proto::event::CreateContext;
use cairn_proto::memory::ListMemoryRequest;
use cairn_proto::orchestrator::Session;

/// Carries out a command, and returns what it shows.
///
/// # Errors
/// The service's.
pub(super) async fn run(chat: &mut Chat<'_, '_>, command: &Slash) -> Result<Vec<String>, CliError> {
    match command {
        Slash::Contexts | Slash::Switch(_) | Slash::Memory | Slash::Cost | Slash::Continue
            if chat.is_new =>
        {
            Ok(vec![
                "the session begins with your first message".to_owned(),
            ])
        }
        Slash::Contexts => {
            let mut contexts = rpc::list(chat.client, &chat.session).await?;
            // This conversation may continue another one than the active.
            for context in &mut contexts {
                let is_own = context.name == chat.context;
                context.is_active = is_own || context.is_active && chat.context.is_empty();
            }
            Ok(list::table(&contexts))
        }
        Slash::Switch(name) => {
            rpc::switch(chat.client, &chat.session, name).await?;
            chat.continue_in(name);
            Ok(vec![format!(
                "this conversation continues in the context {name}"
            )])
        }
        Slash::NewContext(name) => {
            if chat.is_new {
                chat.create_session().await?;
            }
            let context = CreateContext {
                name: name.clone(),
                ..CreateContext::default()
            };
            rpc::create(chat.client, &chat.session, context).await?;
            rpc::switch(chat.client, &chat.session, name).await?;
            chat.continue_in(name);
            Ok(vec![format!(
                "the context {name} is new, and this conversation continues in it"
            )])
        }
        Slash::Agent => agent::show(chat).await,
        Slash::SwitchAgent(name) => agent::switch(chat, name).await,
        Slash::Mode => mode::show(chat).await,
        Slash::SetMode(name) => mode::switch(chat, *name).await,
        Slash::Memory => {
            let session = chat.session.clone();
            let mut memory = chat.client.memory();
            let listed = memory.list_memory(ListMemoryRequest { session }).await?;
            Ok(memory::table(&listed.into_inner().entries))
        }
        Slash::Cost => Ok(cost(&start::session(chat).await?)),
        Slash::Continue => Box::pin(continuation::run(chat)).await,
        Slash::Help => Ok(help()),
        // What takes its time, or ends the conversation, is not carried out here.
        Slash::Compact(_) | Slash::Quit => Ok(Vec::new()),
    }
}

fn cost(session: &Session) -> Vec<String> {
    let mut lines = vec![format!("session  {}", usage_text(session.usage.as_ref()))];
    if let Some(run) = &session.latest_run {
        lines.push(format!("latest   {}", usage_text(run.usage.as_ref())));
    }
    lines
}
