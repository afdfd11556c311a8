//! Lines about agents.

use super::words::PIECE;
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_proto::event as wire;
use cairn_rpc::text::clip;

/// A definition that a session keeps from now on.
pub(super) fn defined(event: &wire::AgentDefined) -> String {
    let name = event.agent.as_ref().map_or("", |agent| &*agent.name);
    // As many digits as tell two definitions of an agent apart for a person.
    let digest: String = event.digest.chars().take(8).collect();
    format!("agent {} is kept as {}", shown(name), clip(&digest, PIECE))
}

/// Another agent of a context.
pub(super) fn switched(event: &wire::AgentSwitched) -> String {
    let context = clip(&event.context, PIECE);
    format!(
        "context {context} has the agent {} now",
        used(event.agent.as_ref())
    )
}

/// `, agent reviewer` after the start of a run; nothing for the default agent.
pub(super) fn of_run(agent: Option<&wire::AgentUse>) -> String {
    match used(agent) {
        name if name == DEFAULT_AGENT => String::new(),
        name => format!(", agent {name}"),
    }
}

/// The name of the agent; `default` for none.
fn used(agent: Option<&wire::AgentUse>) -> String {
    shown(agent.map_or("", |agent| &*agent.name))
}

/// A name as people read it.
pub(super) fn shown(name: &str) -> String {
    match name {
        "" => DEFAULT_AGENT.to_owned(),
        name => clip(name, PIECE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_agent_is_named_where_it_is_chosen_only() {
        let agent = |name: &str| wire::AgentUse {
            name: name.to_owned(),
            ..wire::AgentUse::default()
        };
        assert_eq!(of_run(None), "");
        assert_eq!(of_run(Some(&agent("default"))), "");
        assert_eq!(of_run(Some(&agent("reviewer"))), ", agent reviewer");
        let switched = switched(&wire::AgentSwitched {
            context: "main".to_owned(),
            agent: None,
        });
        assert_eq!(switched, "context main has the agent default now");
    }
}
