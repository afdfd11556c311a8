//! `cairn prompt list`.

use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::out;
use crate::ui::table::{Column, Table};
use cairn_proto::api::{ListPromptsRequest, Prompt, PromptSource};
use cairn_proto::json;

/// Lists the prompts.
///
/// # Errors
/// The store cannot be opened; the service's.
pub(super) async fn run(context: &Context) -> Result<(), CliError> {
    let prompts = all(context).await?;
    if context.json {
        let mut lines = prompts.iter();
        return lines.try_for_each(|prompt| out::json(&to_json(prompt)));
    }
    let mut lines = table(&prompts).lines(terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// A prompt as JSON, by the names of the contract.
pub(super) fn to_json(prompt: &Prompt) -> serde_json::Value {
    json::value("cairn.api.v1.Prompt", Some(prompt))
}

/// Reads all prompts.
///
/// # Errors
/// The store cannot be opened; the service's.
pub(super) async fn all(context: &Context) -> Result<Vec<Prompt>, CliError> {
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let prompts = pages(&mut client).await;
    client.finish().await;
    prompts
}

async fn pages(client: &mut Client<'_>) -> Result<Vec<Prompt>, CliError> {
    let mut found = Vec::new();
    let mut request = ListPromptsRequest::default();
    loop {
        let page = client.persist_agents(|mut agents| {
            let request = request.clone();
            async move { agents.list_prompts(request).await }
        });
        let page = page.await?;
        found.extend(page.prompts);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(found);
        }
    }
}

fn table(prompts: &[Prompt]) -> Table {
    let columns = ["PROMPT", "SOURCE", "VARIABLES", "PROBLEM"];
    let mut table = Table::new(columns.map(Column::Left));
    for prompt in prompts {
        table.row([
            &prompt.name,
            source_name(prompt.source()),
            &prompt.variables.join(", "),
            &prompt.problem,
        ]);
    }
    table
}

const fn source_name(source: PromptSource) -> &'static str {
    match source {
        PromptSource::Unspecified => "?",
        PromptSource::BuiltIn => "built in",
        PromptSource::Settings => "file",
        PromptSource::Agent => "agent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_listed_with_their_sources_and_variables() {
        let prompt = |name: &str, source: PromptSource, variables: &[&str]| Prompt {
            name: name.to_owned(),
            source: source.into(),
            variables: variables.iter().map(|&it| it.to_owned()).collect(),
            ..Prompt::default()
        };
        let prompts = [
            Prompt {
                problem: "the prompt \"greeting\" is wrong\nat line 1".to_owned(),
                ..prompt("greeting", PromptSource::Settings, &["name", "team"])
            },
            prompt("planning", PromptSource::BuiltIn, &[]),
            prompt("agent:critic", PromptSource::Agent, &[]),
        ];
        assert_eq!(
            table(&prompts).lines(None),
            [
                "PROMPT        SOURCE    VARIABLES   PROBLEM",
                "greeting      file      name, team  the prompt \"greeting\" is wrong\\nat line 1",
                "planning      built in",
                "agent:critic  agent",
            ]
        );
    }
}
