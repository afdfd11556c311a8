//! `cairn context list`.

use super::rpc;
use crate::client::Client;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::table::{Column, Table};
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_proto::event::WhenFull;
use cairn_proto::json;
use cairn_proto::orchestrator::ContextSummary;

/// Lists the contexts of a session.
pub(super) async fn run(client: &mut Client<'_>, session: &str) -> Result<(), CliError> {
    let contexts = rpc::list(client, session).await?;
    if client.context().json {
        let name = "cairn.orchestrator.v1.ContextSummary";
        let mut contexts = contexts.iter();
        return contexts.try_for_each(|context| out::json(&json::value(name, Some(context))));
    }
    let mut lines = table(&contexts).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// The contexts for people; a star marks the active one.
pub(in crate::commands) fn table(contexts: &[ContextSummary]) -> Vec<String> {
    let mut table = Table::new([
        Column::Left(""),
        Column::Left("CONTEXT"),
        Column::Right("TURNS"),
        Column::Right("MESSAGES"),
        Column::Right("BYTES"),
        Column::Left("WINDOW"),
        Column::Left("WHEN FULL"),
        Column::Left("AGENT"),
    ]);
    for context in contexts {
        let window = context.window.or(context.agent_window);
        let window = window.map(|window| window.messages.to_string());
        table.row([
            if context.is_active { "*" } else { "" },
            &context.name,
            &context.turns.to_string(),
            &context.messages.to_string(),
            &context.bytes.to_string(),
            &window.unwrap_or_else(|| "all".to_owned()),
            match context.when_full() {
                WhenFull::Refuse => "refuse",
                WhenFull::Compact | WhenFull::Unspecified => "compact",
            },
            context
                .agent
                .as_ref()
                .map_or(DEFAULT_AGENT, |agent| &*agent.name),
        ]);
    }
    table.lines(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{AgentUse, Window};

    #[test]
    fn the_active_context_has_a_star() {
        let context = |name: &str, is_active| ContextSummary {
            name: name.to_owned(),
            is_active,
            messages: 12,
            agent: is_active.then(|| AgentUse {
                name: "reviewer".to_owned(),
                ..AgentUse::default()
            }),
            window: (!is_active).then_some(Window { messages: 4 }),
            agent_window: Some(Window { messages: 9 }),
            when_full: match is_active {
                true => WhenFull::Unspecified.into(),
                false => WhenFull::Refuse.into(),
            },
            ..ContextSummary::default()
        };
        let plain = ContextSummary {
            name: "plain".to_owned(),
            ..ContextSummary::default()
        };
        let lines = table(&[context("draft", false), context("main", true), plain]);
        assert_eq!(
            lines,
            [
                "   CONTEXT  TURNS  MESSAGES  BYTES  WINDOW  WHEN FULL  AGENT",
                "   draft        0        12      0  4       refuse     default",
                "*  main         0        12      0  9       compact    reviewer",
                "   plain        0         0      0  all     compact    default",
            ]
        );
    }
}
