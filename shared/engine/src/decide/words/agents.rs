//! The words about agents.

use super::notice;
use crate::agent::{AgentDefinition, SkillOffer};
use crate::escape::line;
use crate::pool::Grants;
use crate::rules::DEFAULT_AGENT;
use crate::session::{Agent, may_call};

/// The tools by which files and the machine are changed.
const CHANGING: [&str; 3] = ["write_file", "edit_file", "shell_exec"];

/// The layer of the system prompt that says what an agent can call, and which skills there are. Empty if there
/// is nothing to say.
pub(in crate::decide) fn capabilities(agent: &AgentDefinition) -> String {
    let mut tools = Vec::new();
    match agent.tools.as_deref() {
        None => {}
        Some([]) => tools.push(
            "- You can call only the tools that manage this conversation and its work.".to_owned(),
        ),
        Some(offered) => tools.push(format!(
            "- You can call only these tools, beside those that manage this conversation and its work: {}.",
            named(offered)
        )),
    }
    if !agent.denied.is_empty() {
        tools.push(format!("- You cannot call: {}.", named(&agent.denied)));
    }
    if !agent.asked.is_empty() {
        tools.push(format!(
            "- Each call of these waits until a person allows it: {}.",
            named(&agent.asked)
        ));
    }
    let mut sections = Vec::new();
    if !tools.is_empty() {
        let lists = [
            agent.tools.as_deref().unwrap_or_default(),
            agent.denied.as_slice(),
            agent.asked.as_slice(),
        ];
        if lists
            .into_iter()
            .flatten()
            .any(|pattern| pattern.contains('*'))
        {
            tools.push("- In these names `*` stands for any characters.".to_owned());
        }
        sections.push(format!("# What you can call\n\n{}", tools.join("\n")));
    }
    if !agent.skills.is_empty() {
        let mut skills: Vec<String> = agent.skills.iter().filter_map(skill).collect();
        skills.extend(unlisted(agent.skills.len() - skills.len()));
        sections.push(format!(
            "# Skills\n\nA skill has instructions for one kind of work. Read one with read_skill before work \
             that it is for.\n\n{}",
            skills.join("\n")
        ));
    }
    sections.join("\n\n")
}

/// The result of a call of a tool that does not exist.
pub(in crate::decide) fn no_tool(name: &str, known: &[&str]) -> String {
    format!("there is no tool '{name}'; there are: {}", known.join(", "))
}

/// The result of a call of a tool that the agent lacks.
pub(in crate::decide) fn not_for_agent(agent: &str, name: &str, known: &[&str]) -> String {
    format!(
        "this agent, {agent}, may not call '{name}'; it can call: {}",
        known.join(", ")
    )
}

/// The result of a call of a tool that its executor may not use.
pub(in crate::decide) fn not_in_executor(executor: &str, name: &str, known: &[&str]) -> String {
    format!(
        "executor {executor}, which carries this out, may not use '{name}'; you can call: {}",
        known.join(", ")
    )
}

fn named(patterns: &[String]) -> String {
    let names = patterns
        .iter()
        .map(|pattern| format!("`{}`", line(pattern)));
    names.collect::<Vec<_>>().join(", ")
}

/// None without a description.
fn skill(offer: &SkillOffer) -> Option<String> {
    match offer.description.trim() {
        "" => None,
        description => Some(format!("- `{}`: {}", line(&offer.name), line(description))),
    }
}

/// Counts the skills that are not in the list.
fn unlisted(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("- 1 further skill is not listed.".to_owned()),
        _ => Some(format!("- {count} further skills are not listed.")),
    }
}

/// Reports that the conversation has another agent, and what follows for what it can change. None stands for
/// the plain default agent. `grants` count beside the definitions.
pub(in crate::decide) fn switched(
    old: &str,
    was: Option<&Agent>,
    now: Option<&Agent>,
    grants: &Grants,
) -> String {
    let new = now.map_or(DEFAULT_AGENT, |agent| &agent.definition.name);
    let mut text = format!(
        "Your operational mode has changed from {} to {}.",
        line(old),
        line(new)
    );
    let (could, can) = (changing(was, grants), changing(now, grants));
    match (could.len(), can.len()) {
        (_, 0) => text.push_str("\nYou are in read-only mode."),
        (0, all) if all == CHANGING.len() => text.push_str(
            "\nYou are no longer in read-only mode. You are permitted to make file changes, run shell \
             commands, and utilize your arsenal of tools as needed.",
        ),
        (0, _) => text.push_str(&format!(
            "\nYou are no longer in read-only mode. You are permitted to make changes with: {}.",
            can.join(", ")
        )),
        _ => {
            let more = can.iter().filter(|tool| !could.contains(tool));
            let more: Vec<_> = more.copied().collect();
            if !more.is_empty() {
                text.push_str(&format!("\nYou can now also call: {}.", more.join(", ")));
            }
        }
    }
    if !can.is_empty() && can.len() < CHANGING.len() {
        let cannot: Vec<_> = CHANGING
            .into_iter()
            .filter(|tool| !can.contains(tool))
            .collect();
        text.push_str(&format!("\nYou cannot call: {}.", cannot.join(", ")));
    }
    if now.is_some_and(|agent| !agent.capabilities.is_empty()) {
        text.push_str("\nThe system prompt says what you can call now.");
    }
    notice(&text)
}

/// Those of the tools that change something which the agent may call.
fn changing(agent: Option<&Agent>, grants: &Grants) -> Vec<&'static str> {
    let offered = |tool: &&str| may_call(agent, tool, grants);
    CHANGING.into_iter().filter(offered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().copied().map(str::to_owned).collect()
    }

    fn agent(name: &str, denied: &[&str]) -> Agent {
        let definition = AgentDefinition {
            denied: list(denied),
            ..AgentDefinition::named(name)
        };
        let capabilities = capabilities(&definition);
        Agent::new(Arc::new(definition), capabilities)
    }

    #[test]
    fn capabilities_name_what_is_offered_denied_and_asked() {
        assert_eq!(capabilities(&AgentDefinition::named("a")), "");
        let definition = AgentDefinition {
            tools: Some(list(&["read_file", "g__*"])),
            denied: list(&["g__delete"]),
            asked: list(&["g__push"]),
            skills: vec![SkillOffer {
                name: "release".to_owned(),
                description: "Cuts a release.\n- not an entry".to_owned(),
                digest: "d".to_owned(),
            }],
            ..AgentDefinition::named("a")
        };
        let expected = "# What you can call\n\n- You can call only these tools, beside those that manage this \
                        conversation and its work: `read_file`, `g__*`.\n- You cannot call: `g__delete`.\n\
                        - Each call of these waits until a person allows it: `g__push`.\n- In these names `*` \
                        stands for any characters.\n\n# Skills\n\nA skill has instructions for one kind of \
                        work. Read one with read_skill before work that it is for.\n\n- `release`: Cuts a \
                        release.\\n- not an entry";
        assert_eq!(capabilities(&definition), expected);
        let none = AgentDefinition {
            tools: Some(Vec::new()),
            ..AgentDefinition::named("a")
        };
        assert!(capabilities(&none).contains("You can call only the tools that manage"));
    }

    #[test]
    fn skills_without_a_description_are_counted() {
        let skill = |name: &str, description: &str| SkillOffer {
            name: name.to_owned(),
            description: description.to_owned(),
            digest: "d".to_owned(),
        };
        let of = |skills: &[SkillOffer]| {
            let definition = AgentDefinition {
                skills: skills.to_vec(),
                ..AgentDefinition::named("a")
            };
            capabilities(&definition)
        };
        let [a, b, c] = [skill("a", "For a."), skill("b", ""), skill("c", "")];
        let text = of(&[a.clone(), b.clone()]);
        assert!(
            text.ends_with("\n\n- `a`: For a.\n- 1 further skill is not listed."),
            "{text}"
        );
        let text = of(&[a, b, c]);
        assert!(
            text.ends_with("- 2 further skills are not listed."),
            "{text}"
        );
        assert!(!text.contains("`b`"), "{text}");
    }

    #[test]
    fn a_switch_says_what_can_be_changed_now() {
        let plan = agent("plan", &CHANGING);
        let told = switched("build", None, Some(&plan), Grants::none());
        let expected = "<system-reminder>\nYour operational mode has changed from build to plan.\nYou are in \
                        read-only mode.\nThe system prompt says what you can call now.\n</system-reminder>";
        assert_eq!(told, expected);
        let told = switched("plan", Some(&plan), None, Grants::none());
        let expected = "<system-reminder>\nYour operational mode has changed from plan to default.\nYou are no \
                        longer in read-only mode. You are permitted to make file changes, run shell commands, \
                        and utilize your arsenal of tools as needed.\n</system-reminder>";
        assert_eq!(told, expected);
        let writer = agent("writer", &["shell_exec"]);
        let told = switched("plan", Some(&plan), Some(&writer), Grants::none());
        assert!(
            told.contains("with: write_file, edit_file.\nYou cannot call: shell_exec."),
            "{told}"
        );
        let told = switched("writer", Some(&writer), None, Grants::none());
        let expected = "<system-reminder>\nYour operational mode has changed from writer to default.\nYou can now \
                        also call: shell_exec.\n</system-reminder>";
        assert_eq!(told, expected);
    }
}
