//! The tools that may be called, as the tools service lists them.

use super::Dispatcher;
use cairn_engine::decide::{STATE_TOOLS, ToolFacts, ToolList};
use cairn_engine::escape::entry;
use cairn_engine::event::Effect;
use cairn_engine::key::{digest, hex};
use cairn_proto::event::Effect as WireEffect;
use cairn_proto::executor::{Catalogue as Offered, OfferedTool};
use cairn_proto::tools::ListToolsRequest;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_rpc::{Link, RpcError};
use prost::Message as _;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How old the catalogue may become.
const CATALOGUE_AGE: Duration = Duration::from_secs(10);

/// A reading of the catalogue.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// What decisions need to know.
    pub(crate) facts: Arc<ToolList>,
    /// What models are offered, state tools included, sorted by name so that prompt caches hit.
    pub(crate) offered: Offered,
    /// Names what is offered: another content has another name.
    pub(crate) name: String,
    /// A layer of the planner's prompt: the tools that steps may name.
    pub(crate) prompt: String,
}

impl Catalogue {
    pub(crate) async fn read(tools: &Link) -> Result<Self, RpcError> {
        let listed = ToolsServiceClient::new(tools.clone())
            .list_tools(ListToolsRequest {})
            .await?;
        let mut catalogue = Self::default();
        let mut tools = ToolList::new();
        let mut offered = Vec::new();
        for tool in listed.into_inner().tools {
            let effect = match tool.effect() {
                WireEffect::Pure => Effect::Pure,
                WireEffect::Idempotent => Effect::Idempotent,
                WireEffect::Effectful | WireEffect::Unspecified | WireEffect::State => {
                    Effect::Effectful
                }
            };
            let facts = ToolFacts {
                effect,
                time_limit_ms: tool.time_limit_ms,
                in_process: tool.in_process,
                needs_approval: tool.needs_approval,
            };
            tools.insert(tool.name.clone(), facts);
            offered.push(OfferedTool {
                effect: tool.effect,
                needs_approval: tool.needs_approval,
                name: tool.name,
                description: tool.description,
                parameters_json: tool.parameters_json,
            });
        }
        catalogue.facts = Arc::new(tools);
        offered.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue.prompt = prompt(&offered);
        offered.extend(STATE_TOOLS.iter().map(|tool| OfferedTool {
            name: tool.name.to_owned(),
            description: tool.description.to_owned(),
            parameters_json: tool.parameters.to_owned(),
            effect: WireEffect::State.into(),
            needs_approval: false,
        }));
        offered.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue.offer(offered);
        Ok(catalogue)
    }

    fn offer(&mut self, tools: Vec<OfferedTool>) {
        self.offered = Offered { tools };
        self.name = hex(&digest(&[&self.offered.encode_to_vec()]));
    }

    /// The part of it that an attempt is offered.
    pub(crate) fn only(&self, is_offered: impl Fn(&str) -> bool) -> Self {
        let facts = self.facts.iter().filter(|(name, _)| is_offered(name));
        let mut only = Self {
            facts: Arc::new(facts.map(|(name, facts)| (name.clone(), *facts)).collect()),
            ..Self::default()
        };
        let tools = self.offered.tools.iter();
        only.offer(
            tools
                .filter(|tool| is_offered(&tool.name))
                .cloned()
                .collect(),
        );
        only
    }
}

/// Keeps the catalogue of a dispatcher fresh, until stopped.
pub(crate) async fn refresh(dispatcher: Arc<Dispatcher>, tools: Link, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(CATALOGUE_AGE) => {}
        }
        match Catalogue::read(&tools).await {
            Ok(catalogue) => dispatcher.set_catalogue(catalogue),
            Err(error) => tracing::warn!(%error, "catalogue of tools cannot be read"),
        }
    }
}

/// What a planner is told of the tools: what each is for and what it takes.
fn prompt(tools: &[OfferedTool]) -> String {
    if tools.is_empty() {
        return String::new();
    }
    let mut text =
        "# Tools\n\nThe tools that there are, each with the JSON Schema of its arguments:\n"
            .to_owned();
    for tool in tools {
        let OfferedTool {
            name,
            description,
            parameters_json,
            ..
        } = tool;
        let tool = format!("`{name}`: {description} Arguments: `{parameters_json}`");
        text.push_str("\n- ");
        text.push_str(&entry(&tool));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planner_is_reported_every_tool_with_its_arguments() {
        let tool = |name: &str| OfferedTool {
            name: name.to_owned(),
            description: format!("Does {name}.\n- `fake`: no tool."),
            parameters_json: r#"{"type":"object"}"#.to_owned(),
            effect: 0,
            needs_approval: false,
        };
        let text = prompt(&[tool("count"), tool("weigh")]);
        let lines: Vec<_> = text
            .lines()
            .skip_while(|line| !line.starts_with('-'))
            .collect();
        assert_eq!(
            lines,
            [
                "- `count`: Does count.",
                r#"  - `fake`: no tool. Arguments: `{"type":"object"}`"#,
                "- `weigh`: Does weigh.",
                r#"  - `fake`: no tool. Arguments: `{"type":"object"}`"#,
            ]
        );
        assert_eq!(prompt(&[]), "");
    }
}
