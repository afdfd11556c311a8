//! `cairn hook list`.

use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::settings::Settings;
use crate::settings::hooks::foreign_tools;
use crate::ui::hooks::point_name;
use crate::ui::live::terminal_width;
use crate::ui::out;
use crate::ui::table::{Column, Table};
use cairn_proto::api::{Hook, HookDefinition, HookPatterns, HookSource, ListHooksRequest};
use cairn_proto::json;

/// Lists the hooks.
///
/// # Errors
/// The store cannot be opened; the service's.
pub(super) async fn run(context: &Context) -> Result<(), CliError> {
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let hooks = all(&mut client).await;
    client.finish().await;
    let hooks = hooks?.into_iter();
    let hooks: Vec<_> = hooks.map(|it| with_warning(it, context.config())).collect();
    if context.json {
        let mut lines = hooks.iter();
        return lines.try_for_each(|hook| out::json(&to_json(hook)));
    }
    if hooks.is_empty() {
        return out::line("there is no hook; add one to the settings with [[hooks]]");
    }
    let mut lines = table(&hooks).lines(terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// The hook with what is wrong with its tools, if nothing else is wrong with it.
pub(super) fn with_warning(mut hook: Hook, settings: &Settings) -> Hook {
    let definition = hook.definition.as_ref();
    let warning = definition.and_then(|it| foreign_tools(&it.tools, settings));
    if let Some(warning) = warning.filter(|_| hook.problem.is_empty()) {
        hook.problem = warning;
    }
    hook
}

/// A hook as JSON, by the names of the contract.
pub(super) fn to_json(hook: &Hook) -> serde_json::Value {
    json::value("cairn.api.v1.Hook", Some(hook))
}

async fn all(client: &mut Client<'_>) -> Result<Vec<Hook>, CliError> {
    let mut found = Vec::new();
    let mut request = ListHooksRequest::default();
    loop {
        let page = client.persist_hooks(|mut hooks| {
            let request = request.clone();
            async move { hooks.list_hooks(request).await }
        });
        let page = page.await?;
        found.extend(page.hooks);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(found);
        }
    }
}

fn table(hooks: &[Hook]) -> Table {
    let columns = ["HOOK", "KIND", "POINTS", "AGENTS", "PROBLEM"];
    let mut table = Table::new(columns.map(Column::Left));
    for hook in hooks {
        let definition = hook.definition.clone().unwrap_or_default();
        table.row([
            &definition.name,
            source_name(hook.source()),
            &points(&definition),
            &agents(definition.agents.as_ref()),
            &hook.problem,
        ]);
    }
    table
}

/// Where a hook comes from, and what it is.
pub(super) const fn source_name(source: HookSource) -> &'static str {
    match source {
        HookSource::Unspecified => "?",
        HookSource::Stored => "stored service",
        HookSource::Service => "service",
        HookSource::Program => "program",
        HookSource::InProcess => "in process",
    }
}

/// The names of its points.
pub(super) fn points(definition: &HookDefinition) -> String {
    let points: Vec<_> = definition
        .points
        .iter()
        .map(|point| point_name(*point))
        .collect();
    points.join(", ")
}

/// The agents whose runs ask it.
pub(super) fn agents(patterns: Option<&HookPatterns>) -> String {
    match patterns.map(|list| list.patterns.as_slice()) {
        None => "all".to_owned(),
        Some([]) => "those that name it".to_owned(),
        Some(patterns) => patterns.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::HookPoint;

    #[test]
    fn tools_with_names_of_other_programs_are_a_problem() {
        let of = |tools: &[&str], problem: &str| {
            let hook = Hook {
                definition: Some(HookDefinition {
                    tools: tools.iter().map(|&it| it.to_owned()).collect(),
                    ..HookDefinition::default()
                }),
                problem: problem.to_owned(),
                ..Hook::default()
            };
            with_warning(hook, &Settings::default()).problem
        };
        assert_eq!(of(&[], ""), "");
        assert_eq!(of(&["shell_exec", "*_file", "github__*"], ""), "");
        let bash = "\"Bash\" is a tool of other programs, which is shell_exec here";
        assert_eq!(of(&["Bash"], ""), bash);
        assert_eq!(of(&["Bash"], "it is gone"), "it is gone");
        let write = "\"Write\" is a tool of other programs, which is edit_file or write_file here";
        let todo = "\"TodoWrite\" is a tool of other programs, and Cairn has none like it";
        assert_eq!(of(&["Write|TodoWrite"], ""), format!("{write}; {todo}"));
    }

    #[test]
    fn hooks_are_listed_with_kind_and_points() {
        let hook = |name: &str, source: HookSource, agents: Option<&[&str]>| Hook {
            definition: Some(HookDefinition {
                name: name.to_owned(),
                points: vec![HookPoint::PreToolCall.into(), HookPoint::OnRunEnd.into()],
                agents: agents.map(|patterns| HookPatterns {
                    patterns: patterns.iter().map(|&it| it.to_owned()).collect(),
                }),
                ..HookDefinition::default()
            }),
            source: source.into(),
            ..Hook::default()
        };
        let hooks = [
            hook("guard", HookSource::Program, None),
            hook("audit", HookSource::Stored, Some(&[])),
            Hook {
                problem: "its address\nis not allowed".to_owned(),
                ..hook("far", HookSource::Service, Some(&["review*"]))
            },
        ];
        assert_eq!(
            table(&hooks).lines(None),
            [
                "HOOK   KIND            POINTS                 AGENTS              PROBLEM",
                "guard  program         PreToolCall, OnRunEnd  all",
                "audit  stored service  PreToolCall, OnRunEnd  those that name it",
                "far    service         PreToolCall, OnRunEnd  review*             its address\\nis not allowed",
            ]
        );
    }
}
