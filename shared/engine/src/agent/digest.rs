//! Digests of definitions: equal digests, equal definitions.
//!
//! They are of canonical JSON that is written here field by field, so that a field with another name in the
//! code, or a new one that a definition does not use, changes no digest.

use super::{AgentDefinition, SkillOffer};
use crate::canonical::to_canonical_json;
use crate::command::WhenFull;
use crate::key::{digest, hex};
use serde_json::{Map, Value};

const DOMAIN: &[u8] = b"cairn.agent.definition";
/// Goes into every digest, so that a change of the rule changes all of them at once.
const VERSION: &[u8] = b"1";

/// The fields of a definition that say something.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.put(name, text);
        }
    }

    fn list(&mut self, name: &str, list: &[String]) {
        if !list.is_empty() {
            self.put(name, list.to_vec());
        }
    }

    fn some<T: Into<Value>>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn object(&mut self, name: &str, object: Self) {
        if !object.0.is_empty() {
            self.put(name, object.0);
        }
    }
}

impl AgentDefinition {
    /// Tells one definition from another: 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut agent = Object::default();
        agent.text("name", &self.name);
        agent.text("prompt", &self.prompt);
        agent.text("model", &self.model);
        agent.some("tools", self.tools.clone());
        agent.list("denied", &self.denied);
        agent.list("asked", &self.asked);
        agent.object("limits", limits(self));
        agent.some("temperature_milli", self.temperature_milli);
        agent.object("compaction", compaction(self));
        agent.some("window", self.window);
        if !self.skills.is_empty() {
            let skills: Vec<Value> = self.skills.iter().map(skill).collect();
            agent.put("skills", skills);
        }
        agent.text("instructions", &self.instructions);
        agent.list("capabilities", &self.capabilities);
        agent.list("hooks", &self.hooks);
        let text = to_canonical_json(&Value::Object(agent.0));
        hex(&digest(&[DOMAIN, VERSION, text.as_bytes()]))
    }
}

fn limits(agent: &AgentDefinition) -> Object {
    let mut limits = Object::default();
    limits.some("max_tool_turns", agent.limits.max_tool_turns);
    limits.some("max_turns", agent.limits.max_turns);
    limits.some("tokens", agent.limits.tokens);
    limits.some("cost_nano_usd", agent.limits.cost_nano_usd);
    limits.some("time_ms", agent.limits.time_ms);
    limits.some("calls", agent.limits.calls);
    limits
}

fn compaction(agent: &AgentDefinition) -> Object {
    let mut compaction = Object::default();
    compaction.some("at_permille", agent.compaction.at_permille);
    compaction.some("keep_turns", agent.compaction.keep_turns);
    let when_full = agent.compaction.when_full.map(|when| match when {
        WhenFull::Compact => "compact",
        WhenFull::Refuse => "refuse",
    });
    compaction.some("when_full", when_full);
    compaction
}

fn skill(offer: &SkillOffer) -> Value {
    let mut skill = Object::default();
    skill.text("name", &offer.name);
    skill.text("description", &offer.description);
    skill.text("digest", &offer.digest);
    Value::Object(skill.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::AgentLimits;
    use std::collections::BTreeSet;

    /// Changes of which each gives another definition.
    const CHANGES: [fn(&mut AgentDefinition); 26] = [
        |_| {},
        |it| it.name.push('b'),
        |it| it.prompt.push('x'),
        |it| it.model.push('x'),
        |it| it.tools = Some(Vec::new()),
        |it| it.tools = Some(vec!["x".to_owned()]),
        |it| it.denied.push("x".to_owned()),
        |it| it.asked.push("x".to_owned()),
        |it| it.limits.max_tool_turns = Some(0),
        |it| it.limits.max_turns = Some(1),
        |it| it.limits.tokens = Some(1),
        |it| it.limits.cost_nano_usd = Some(1),
        |it| it.limits.time_ms = Some(1),
        |it| it.limits.calls = Some(1),
        |it| it.temperature_milli = Some(0),
        |it| it.compaction.at_permille = Some(1),
        |it| it.compaction.keep_turns = Some(1),
        |it| it.compaction.when_full = Some(WhenFull::Compact),
        |it| it.compaction.when_full = Some(WhenFull::Refuse),
        |it| it.window = Some(1),
        |it| it.skills.push(offer("x", "", "")),
        |it| it.skills.push(offer("", "x", "")),
        |it| it.skills.push(offer("", "", "x")),
        |it| it.instructions.push('x'),
        |it| it.capabilities.push("x".to_owned()),
        |it| it.hooks.push("x".to_owned()),
    ];

    fn offer(name: &str, description: &str, digest: &str) -> SkillOffer {
        SkillOffer {
            name: name.to_owned(),
            description: description.to_owned(),
            digest: digest.to_owned(),
        }
    }

    #[test]
    fn every_field_changes_the_digest() {
        let changed = CHANGES.iter().map(|change| {
            let mut agent = AgentDefinition::named("a");
            change(&mut agent);
            agent.digest()
        });
        let digests: BTreeSet<String> = changed.collect();
        assert_eq!(digests.len(), CHANGES.len());
        assert!(digests.iter().all(|digest| digest.len() == 64));
    }

    /// A run names its definition by it, in a journal that outlives the program.
    #[test]
    fn a_digest_never_changes() {
        let agent = AgentDefinition {
            tools: Some(vec!["read_file".to_owned()]),
            limits: AgentLimits {
                calls: Some(5),
                ..AgentLimits::default()
            },
            ..AgentDefinition::named("a")
        };
        let text = br#"{"limits":{"calls":5},"name":"a","tools":["read_file"]}"#;
        assert_eq!(agent.digest(), hex(&digest(&[DOMAIN, VERSION, text])));
    }
}
